#!/usr/bin/env bash
# Events per second of the simulator beside ns-3: the same queue (M/D/1) in both, in turn, in one sitting.
#
#   lab/ns3-queue.sh [PAIRS] [SOURCES] [UTILISATION_PCT] [SECONDS]     default 10 pairs, 100 sources, 80 %, 5 s of virtual time
#
# Needs cargo, g++ and ns-3 (Debian: apt-get install g++ libns3-dev). An event is one scheduled callback that is executed; what is
# timed is the CPU time of the thread, without starting the program. Each pair runs, with a seed of its own:
#
#   machine    Napier: the whole simulated machine (steps: events of its agenda, and pieces of code that go on when their time is spent)
#   agenda     Napier: an agenda as the machine has it, without the machine: an arrival and a departure for each request
#   ns-3       the same two events, with the scheduler that is fastest here (PriorityQueueScheduler: a binary heap, as the agenda's)
#   ns-3 map   the same with the scheduler that ns-3 has if none is chosen (MapScheduler)
#
# Prints a line per pair, then median [min-max] of each and of the ratios within the pairs. The mean time in the system is printed too:
# by Pollaczek and Khinchine 30 us at 80 % and services of 10 us, a little less with few sources; all have to come near it.
set -euo pipefail
cd "$(dirname "$0")/.."

pairs=${1:-10} sources=${2:-100} utilisation=${3:-80} seconds=${4:-5}
for program in cargo g++ python3; do
  command -v "$program" >/dev/null || { echo "SKIPPED: $program is not installed"; exit 0; }
done
[ -e /usr/include/ns3/core-module.h ] || { echo "SKIPPED: ns-3 is not installed (Debian: apt-get install libns3-dev)"; exit 0; }

cargo build --release --quiet -p napier-sim --example queue
napier=${CARGO_TARGET_DIR:-$PWD/target}/release/examples/queue
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
g++ -O3 -march=native -std=c++17 -o "$work/ns3" lab/ns3-queue.cc -lns3-core 2>"$work/said" || { cat "$work/said"; exit 1; }

for pair in $(seq "$pairs"); do
  common=("$sources" "$utilisation" "$seconds" "$pair")
  echo "$pair machine $("$napier" machine "${common[@]}")"
  echo "$pair ns-3 $("$work/ns3" PriorityQueueScheduler "${common[@]}")"
  echo "$pair agenda $("$napier" agenda "${common[@]}")"
  echo "$pair ns-3-map $("$work/ns3" MapScheduler "${common[@]}")"
done >"$work/runs"

python3 - "$work/runs" <<'END'
import statistics
import sys

runs = {}
for line in open(sys.argv[1]):
    pair, who, *words = line.split()
    runs.setdefault(who, {})[pair] = dict(zip(words[::2], map(float, words[1::2])))

def spread(values, form="%.2f"):
    values = list(values)
    return f"{form % statistics.median(values)} [{form % min(values)}-{form % max(values)}]"

def rate(who):
    return {pair: run["events"] / run["cpu_s"] for pair, run in runs[who].items()}

names = ["machine", "agenda", "ns-3", "ns-3-map"]
print("pair " + "".join(f"{name + ' M/s':>16}" for name in names))
for pair in runs["ns-3"]:
    print(f"{pair:<5}" + "".join(f"{rate(name)[pair] / 1e6:16.2f}" for name in names))
print(f"\n{'':10} {'million events/s':>24} {'events per request':>20} {'ns per request':>22} {'mean us':>24}")
for name in names:
    each = runs[name].values()
    print(f"{name:10} {spread(r / 1e6 for r in rate(name).values()):>24} "
          f"{statistics.median(run['events'] / run['answers'] for run in each):>20.1f} "
          f"{spread((run['cpu_s'] * 1e9 / run['answers'] for run in each), '%.0f'):>22} "
          f"{spread((run['mean_us'] for run in each), '%.1f'):>24}")
print()
for ours in names[:2]:
    for theirs in names[2:]:
        a, b = rate(ours), rate(theirs)
        print(f"{ours} / {theirs}: {spread(a[pair] / b[pair] for pair in a)}")
END
