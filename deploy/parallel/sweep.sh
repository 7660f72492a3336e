#!/usr/bin/env bash
# Runs a plan on several machines over ssh, by GNU parallel, and joins what comes back: the same bytes as in one run.
#
#   deploy/parallel/sweep.sh --hosts a,b,user@c --out result.txt irq-suspension
#   deploy/parallel/sweep.sh --hosts-file hosts --out result.json --json --file lab/mine.toml plans/mine.toml
#
#   --hosts LIST, --hosts-file FILE   where to run: as ssh takes them, by comma or one a line
#   --out FILE              what `napier sim merge` prints of the whole
#   --json                  one JSON object instead of the table
#   --shards N              parts at first; default: two for each host
#   --file FILE             what the plan names besides: its machine file; may be given more than once
#   --napier PROGRAM        Napier here; default: napier, or $NAPIER
#   --remote-napier PROGRAM Napier on the hosts; default: napier
#   --ssh COMMAND           default: ssh; such as "ssh -F my-config"
#   --rounds N              how often to ask before it gives up; default 4
#   --keep FOLDER           keeps the parts there; the same command goes on with them after an interruption
#
# Needs here: parallel, tar. On the hosts: an account without a question for a password, perl, tar, Napier of the same version.
# Paths of the plan and of --file are below the current folder, for the hosts get the same tree.
#
# What is lost is asked for again:
#   - a part whose host says no or dies is given to another host at once (`parallel --retries`);
#   - then files that are not whole are thrown away, and `napier sim merge` names the cells that are missing: these are asked for
#     by name (`--cells`), divided among the hosts that still answer.
# Standard error tells of each. Exit status: 0 = FILE is written; 1 = cells are missing, or no host answers; 2 = wrong usage.
set -euo pipefail

say() { printf 'sweep: %s\n' "$*" >&2; }
usage() { say "$*"; exit 2; }

hosts=() files=() merge_as=() out='' plan='' shards='' keep=''
napier=${NAPIER:-napier} remote=napier ssh=ssh rounds=4
while [ $# -gt 0 ]; do
  case $1 in
    --json) merge_as=(--json); shift; continue ;;
    --*) [ $# -ge 2 ] || usage "$1 needs a value" ;;
    *) [ -z "$plan" ] || usage "one plan at a time: $plan or $1"; plan=$1; shift; continue ;;
  esac
  case $1 in
    --hosts) IFS=, read -ra hosts <<<"$2" ;;
    --hosts-file) mapfile -t hosts < <(grep -v '^ *\(#\|$\)' "$2") ;;
    --out) out=$2 ;;
    --shards) shards=$2 ;;
    --file) files+=("$2") ;;
    --napier) napier=$2 ;;
    --remote-napier) remote=$2 ;;
    --ssh) ssh=$2 ;;
    --rounds) rounds=$2 ;;
    --keep) keep=$2 ;;
    *) usage "unknown option $1" ;;
  esac
  shift 2
done
if [ -z "$plan" ] || [ -z "$out" ] || [ "${#hosts[@]}" -eq 0 ]; then
  usage "a plan, --hosts and --out are needed"
fi
shards=${shards:-$((2 * ${#hosts[@]}))}
[[ $shards =~ ^[1-9][0-9]*$ && $rounds =~ ^[1-9][0-9]*$ ]] || usage "--shards and --rounds are numbers from 1"
for program in parallel tar "$napier" "${ssh%% *}"; do
  command -v "$program" >/dev/null || usage "$program is not installed"
done
parallel --version 2>/dev/null | grep -q 'GNU parallel' || usage "the program parallel is another one: install GNU parallel"
[ ! -e "$plan" ] || files+=("$plan")
for file in "${files[@]}"; do
  [[ $file != /* && /$file/ != */../* && -r $file ]] || usage "$file: give a file below this folder, by its path from here"
done

ssh="$ssh -o BatchMode=yes -o ConnectTimeout=10 -o ServerAliveInterval=5 -o ServerAliveCountMax=3"
version=$("$napier" --version)
# The same plan has the same folder on the hosts, so that an interrupted part goes on there.
id=$( (echo "$version $plan" && cat -- "${files[@]}" /dev/null) | sha256sum | cut -c1-12)
there=napier-sweep-$id
work=${keep:-$(mktemp -d)}
mkdir -p "$work/parts"
[ -n "$keep" ] || trap 'rm -rf "$work"' EXIT
export PARALLEL_HOME=$work/parallel
mkdir -p "$PARALLEL_HOME"

# Sends the files to every host. Those that answer with our version go to the list.
find_hosts() {
  local host answer
  : >"$work/up"
  for host in "${hosts[@]}"; do
    # shellcheck disable=SC2086 # the command for ssh has options
    if ! answer=$(tar -cf - -T <(printf '%s\n' "${files[@]}" | sed '/^$/d') |
      timeout 60 $ssh "$host" "mkdir -p $there && tar -xf - -C $there && $remote --version" 2>"$work/said"); then
      say "$host does not answer: $(tail -n 1 "$work/said")"
    elif [ "$answer" != "$version" ]; then
      say "$host is left out: it has $answer, and here is $version"
    else
      echo "1/$host" >>"$work/up"
    fi
  done
  [ -s "$work/up" ]
}

# Whether a file has results, of whichever cells; a file that was cut has not.
is_whole() {
  "$napier" sim merge "$1" >/dev/null 2>"$work/said" || grep -q 'cells are missing: ' "$work/said"
}

# Runs what the lines of $work/asked ask for: a name, a tab, an option of `napier sim plan`.
ask() {
  local name option
  # The host's name is in the file's, for several may have one home.
  # shellcheck disable=SC2016 # expanded on the hosts
  local command='cd '$there' && part={1}.$(hostname).json && { '$remote' sim plan '$plan' {2} --out $part >&2; code=$?; cat $part 2>/dev/null; exit $code; }'
  parallel --will-cite --sshloginfile "$work/up" --ssh "$ssh" --retries 2 --colsep '\t' \
    --results "$work/parts/{1}" -a "$work/asked" "$command" >/dev/null 2>"$work/said" || true
  while IFS=$'\t' read -r name option; do
    if [ -e "$work/parts/$name" ] && is_whole "$work/parts/$name"; then
      mv "$work/parts/$name" "$work/parts/$name.json"
    else
      say "lost: $option$(tail -n 1 "$work/parts/$name.err" 2>/dev/null | cut -c1-200 | sed 's/^/: /')"
    fi
  done <"$work/asked"
}

# The cells that are missing, divided among the hosts; or the parts, as long as there is none.
ask_for_what_is_missing() {
  local round=$1 cells=() count each at
  : >"$work/asked"
  if compgen -G "$work/parts/*.json" >/dev/null; then
    IFS=, read -ra cells < <(sed -n 's/.* --cells \(.*\) --out FILE.*/\1/p' "$work/missing")
    count=$(wc -l <"$work/up")
    each=$(((${#cells[@]} + count - 1) / count))
    say "asking again for ${#cells[@]} cells by name"
    for ((at = 0; at < ${#cells[@]}; at += each)); do
      printf 'again-%s-%s-%s\t--cells=%s\n' "$round" "$at" "$$" "$(IFS=,; echo "${cells[*]:at:each}")" >>"$work/asked"
    done
  else
    for ((at = 1; at <= shards; at++)); do
      printf 'part-%s-of-%s\t--shard=%s/%s\n' "$at" "$shards" "$at" "$shards" >>"$work/asked"
    done
  fi
  ask
}

merge() {
  compgen -G "$work/parts/*.json" >/dev/null || return 1
  if "$napier" sim merge "${merge_as[@]}" "$work"/parts/*.json >"$work/merged" 2>"$work/missing"; then
    mv "$work/merged" "$out"
    return 0
  fi
  grep -q 'cells are missing: ' "$work/missing" || { say "$(cat "$work/missing")"; exit 1; }
  return 1
}

for ((round = 1; round <= rounds; round++)); do
  if merge; then
    break
  fi
  find_hosts || { say "no host answers"; exit 1; }
  ask_for_what_is_missing "$round"
done
if [ "$round" -gt "$rounds" ] && ! merge; then
  [ ! -s "$work/missing" ] || say "$(cat "$work/missing")"
  say "given up after $rounds rounds"
  exit 1
fi
[ -e "$work/up" ] || exit 0
while IFS=/ read -r _ host; do
  # shellcheck disable=SC2086 # the command for ssh has options
  $ssh -n "$host" "rm -rf $there" 2>/dev/null || say "$host keeps its folder $there"
done <"$work/up"
