# bash completion for ballast. "ballast __complete" knows the commands, the options and the
# checkpoints in the store; a line ":files" in its answer asks for the shell's own file names.

_ballast() {
  local left=${COMP_LINE:0:COMP_POINT} answer prefix=
  local -a words
  COMPREPLY=()

  # The line is split at blanks: readline's own words also end at "=", ":" and "@", which names have.
  read -ra words <<<"$left"
  [[ $left == *[[:space:]] ]] && words+=("")
  local word=${words[-1]}

  # "--option=value" is completed as a value of the option; readline replaces what is behind its last break.
  if [[ $word == --*=* ]]; then
    words[-1]=${word%%=*}
    words+=("${word#*=}")
    word=${word#*=}
  fi
  local break_at=${word##*[=:@]}
  prefix=${word%"$break_at"}

  while IFS= read -r answer; do
    if [[ $answer == :files ]]; then
      compopt -o filenames 2>/dev/null
      while IFS= read -r answer; do COMPREPLY+=("${answer#"$prefix"}"); done < <(compgen -f -- "$word")
    else
      COMPREPLY+=("${answer#"$prefix"}")
    fi
  done < <("${words[0]}" __complete $((${#words[@]} - 2)) "${words[@]:1}" 2>/dev/null)
}

complete -F _ballast ballast
