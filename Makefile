# The short names of what people do here. Meson does the building: see meson.build.
PREFIX ?= /usr/local
DESTDIR ?=

all: ## build into build/: the command is build/src/ballast
	sh -c '. tools/deps.sh && deps_debian $$DEPS_BUILD && deps_ninja build'

check: ## every test, as the continuous integration runs it
	sh tools/check.sh

demo: ## a real model imported, inspected, verified, pulled and deleted
	sh tools/demo.sh

asan: ## unit and end-to-end tests under the address and undefined-behaviour sanitizers
	sh tools/check.sh asan unit-asan e2e-asan

tidy: ## clang-tidy
	sh tools/check.sh build tidy

fmt: ## clang-format, in place
	find src tests bench -name '*.[ch]' -print0 | xargs -0 clang-format-14 -i

bench: ## the numbers of docs/performance.md, as ratios
	sh bench/run.sh

torture: ## the long forms of the fault tests: hours
	sh tools/torture.sh

install: ## the command, manual pages and completion, to DESTDIR and PREFIX
	sh -c '. tools/deps.sh && deps_debian $$DEPS_BUILD scdoc && \
	  if [ -e build-install ]; then meson configure build-install --prefix="$(PREFIX)"; fi && \
	  DEPS_SETUP="--prefix=$(PREFIX) --buildtype=release -Dtests=false" && deps_ninja build-install'
	DESTDIR="$(DESTDIR)" meson install -C build-install --no-rebuild

clean: ## all that was built; the packages fetched into build/ too
	rm -rf build build-*

help: ## this list
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/\1\t\2/p' Makefile | expand -t 10

.PHONY: all check demo asan tidy fmt bench torture install clean help
