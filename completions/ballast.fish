# fish completion for ballast. "ballast __complete" knows the commands, the options and the
# checkpoints in the store; a line ":files" in its answer asks for the shell's own file names.

function __ballast_complete
    set -l words (commandline --tokenize --cut-at-cursor --current-process)
    set -l word (commandline --cut-at-cursor --current-token)
    set -l unescaped (string unescape -- "$word")
    test -n "$unescaped"; and set word $unescaped

    # "--option=value" is completed as a value of the option.
    set -l prefix ""
    if string match --quiet -- "--*=*" "$word"
        set -l parts (string split --max 1 = -- "$word")
        set prefix "$parts[1]="
        set words $words $parts[1]
        set word "$parts[2]"
    end

    set -l program (string replace --regex '^~(?=/)' -- "$HOME" $words[1])
    type --query $program; or return
    for answer in ($program __complete (math (count $words) - 1) $words[2..] "$word" 2>/dev/null)
        if test "$answer" = ":files"
            string replace --regex '^' -- "$prefix" (__fish_complete_path "$word")
        else
            printf '%s\n' "$prefix$answer"
        end
    end
end

complete --command ballast --no-files --arguments '(__ballast_complete)'
