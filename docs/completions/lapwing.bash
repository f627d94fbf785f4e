# bash completion for lapwing; made by tools/docs.sh from the commands.
# shellcheck shell=bash

_lapwing() {
    local current=${COMP_WORDS[COMP_CWORD]} command=${COMP_WORDS[1]}
    local before=${COMP_WORDS[COMP_CWORD - 1]}
    local commands="attach dump export formats help pack report run runs shell top"
    local options="--help" operands="" values=none files=yes

    if [ "$COMP_CWORD" -eq 1 ]; then
        mapfile -t COMPREPLY < <(compgen -W "$commands --help --version" -- "$current")
        return
    fi
    case $command in
    attach)
        options="--help --rate --native --pause --duration --no-children --no-system --torch --iterations --output --name --max-size --quiet --no-summary"
        operands=""
        ;;
    dump)
        options="--help --json --locals --no-children"
        operands=""
        ;;
    export)
        options="--help --to --output --diff --state --frames --split"
        operands=""
        ;;
    formats)
        options="--help --json --csv"
        operands=""
        ;;
    help)
        options="--help"
        operands="attach dump export formats help pack report run runs shell top"
        ;;
    pack)
        options="--help --output --in"
        operands=""
        ;;
    report)
        options="--help --sort --reverse --mine --match --limit --strip --min-share --depth --thread --process --from --state --error --by --rank --range --compat --diff --json --csv --markdown --style --pager --output"
        operands="advice callees callers compare critical functions idle kernels launch lines memory modules ops overlap overview processes ranks steps summary sync system threads tree"
        ;;
    run)
        options="--help --rate --native --pause --no-sample --calls --c-calls --min-span --ops --no-steps --no-system --torch --schedule --module --output --name --max-size --quiet --no-summary"
        operands=""
        ;;
    runs)
        options="--help --in --json --csv"
        operands=""
        ;;
    shell)
        options="--help"
        operands=""
        ;;
    top)
        options="--help --rate --native --pause --no-children --duration --sort --lines --time --batch --interval --rows"
        operands=""
        ;;
    esac
    case "$command $before" in
    "attach --rate")
        values=""
        files=
        ;;
    "attach --duration")
        values=""
        files=
        ;;
    "attach --iterations")
        values=""
        files=
        ;;
    "attach --output" | "attach -o")
        values=""
        files=yes
        ;;
    "attach --name")
        values=""
        files=
        ;;
    "attach --max-size")
        values=""
        files=
        ;;
    "export --to" | "export -t")
        values="callgrind chrome collapsed csv json markdown perfetto pprof pstats speedscope svg"
        files=
        ;;
    "export --output" | "export -o")
        values=""
        files=yes
        ;;
    "export --state")
        values="wall cpu gil wait gc"
        files=
        ;;
    "export --frames")
        values="functions lines names"
        files=
        ;;
    "export --split")
        values="none step"
        files=
        ;;
    "pack --output" | "pack -o")
        values=""
        files=yes
        ;;
    "pack --in")
        values=""
        files=
        ;;
    "report --sort" | "report -s")
        values="calls ncalls cumtime cumulative filename line module name nfl pcalls stdname time tottime"
        files=
        ;;
    "report --match")
        values=""
        files=
        ;;
    "report --limit" | "report -n")
        values=""
        files=
        ;;
    "report --min-share")
        values=""
        files=
        ;;
    "report --depth")
        values=""
        files=
        ;;
    "report --thread")
        values=""
        files=
        ;;
    "report --process")
        values=""
        files=
        ;;
    "report --from")
        values="any calls samples"
        files=
        ;;
    "report --state")
        values="wall cpu gil wait gc"
        files=
        ;;
    "report --by")
        values=""
        files=
        ;;
    "report --rank")
        values=""
        files=
        ;;
    "report --range")
        values=""
        files=
        ;;
    "report --compat")
        values="none tb hta torch"
        files=
        ;;
    "report --style")
        values="lapwing pstats torch"
        files=
        ;;
    "report --output" | "report -o")
        values=""
        files=yes
        ;;
    "run --rate")
        values=""
        files=
        ;;
    "run --min-span")
        values=""
        files=
        ;;
    "run --ops")
        values="off windows all"
        files=
        ;;
    "run --schedule")
        values=""
        files=
        ;;
    "run --output" | "run -o")
        values=""
        files=yes
        ;;
    "run --name")
        values=""
        files=
        ;;
    "run --max-size")
        values=""
        files=
        ;;
    "runs --in")
        values=""
        files=
        ;;
    "top --rate")
        values=""
        files=
        ;;
    "top --duration")
        values=""
        files=
        ;;
    "top --sort")
        values="self total"
        files=
        ;;
    "top --time")
        values="running gil wall"
        files=
        ;;
    "top --interval")
        values=""
        files=
        ;;
    "top --rows")
        values=""
        files=
        ;;
    esac
    if [ "$values" != none ]; then
        operands=$values
    elif [[ $current == -* ]]; then
        operands=$options files=
    fi
    mapfile -t COMPREPLY < <(
        compgen -W "$operands" -- "$current"
        [ -n "$files" ] && compgen -f -- "$current"
    )
}
complete -o filenames -F _lapwing lapwing
