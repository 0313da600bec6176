# What zsh offers at the end of a line, asked in a terminal of its own:
#
#   zsh -f complete.zsh COMPLETIONS LINE
#
# prints the line as completion left it, then each candidate.
zmodload zsh/zpty zsh/zselect
scratch=$(mktemp -d)
trap 'zpty -d shell 2>/dev/null; rm -rf $scratch' EXIT

# compadd is what every completion ends in: this one also notes what matches.
cat >$scratch/setup <<END
unset zle_bracketed_paste
PROMPT=
fpath=(${(q)1} \$fpath)
autoload -Uz compinit && compinit -u -D
END
cat >>$scratch/setup <<'END'
typeset -ga hits
compadd() {
  local -a found
  if [[ " ${(j: :)@[1,(i)-]}" != *\ -[AOD]\ * ]]; then
    builtin compadd -A found "$@"
    hits+=("${found[@]}")
  fi
  builtin compadd "$@"
}
capture() { hits=(); _main_complete }
record() {
  print -rl -- "$BUFFER" "${hits[@]}" >$scratch/answer.new
  mv $scratch/answer.new $scratch/answer
}
zle -C capture complete-word capture
zle -N record
bindkey '^I' capture
bindkey '^X' record
: >$scratch/ready
END

wait_for() {
  local -i n
  for n in {1..3000}; do
    [[ -e $1 ]] && return
    # The terminal must be read, or its writer waits.
    while zpty -rt shell line; do :; done
    zselect -t 1
  done
  print -u2 "complete.zsh: no $1"
  exit 1
}

zpty -b shell "scratch=${(q)scratch} zsh -f -i"
zpty -w shell "source $scratch/setup"
wait_for $scratch/ready
zpty -w -n shell "$2"$'\t\x18'
wait_for $scratch/answer
cat $scratch/answer
