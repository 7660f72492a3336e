#!/usr/bin/env bash
# The hand-over from many senders to one beside DPDK: `napier bench tx-list --variant list` and rte_ring in its three
# multi-producer modes, in turn.
#
#   scripts/dpdk/dpdk-ring.sh [ROUNDS] [SENDERS] [SECONDS] [pin]    default 10 rounds, 16 senders, 0.5 s a run; pin: each thread
#                                                          on one CPU. Needs a C compiler and DPDK's headers (Debian:
#                                                          apt-get install libdpdk-dev)
#
# Workload and back-pressure are the same (scripts/dpdk/dpdk-ring.c). rte_ring carries 4-byte elements, needs no privilege, and
# has one consumer (RING_F_SC_DEQ). Prints a line per run, then median [min-max] of each, and items/s by those of the
# list in the same round.
set -euo pipefail
cd "$(dirname "$0")/../.."

rounds=${1:-10} senders=${2:-16} seconds=${3:-0.5} pin=${4:-}
command -v pkg-config > /dev/null && pkg-config --exists libdpdk ||
    { echo "SKIPPED: libdpdk is not installed (Debian: apt-get install libdpdk-dev)"; exit 0; }
[ "$(uname -m)" = x86_64 ] || { echo "SKIPPED: reads the time-stamp counter of x86-64"; exit 0; }

cargo build --release --quiet
napier=${CARGO_TARGET_DIR:-$PWD/target}/release/napier
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# shellcheck disable=SC2046 # flags are words
cc -O3 -std=gnu11 $(pkg-config --cflags libdpdk) -o "$work/dpdk-ring" scripts/dpdk/dpdk-ring.c $(pkg-config --libs libdpdk) -lpthread

list() {
    "$napier" bench tx-list --variant list --threads "$senders" --runs 1 --seconds "$seconds" ${pin:+--pin} --json | python3 -c '
import json, sys
row = json.load(sys.stdin)["rows"][0]
figures = [row[key]["median"] for key in ("items_per_s", "p50_ns", "p99_ns", "p999_ns", "max_ns", "cpu_ns_per_item")]
print("%.0f %.0f %.0f %.0f %.0f %.1f" % tuple(figures))'
}

schemes=(list mp rts hts)
for round in $(seq "$rounds"); do
    for scheme in "${schemes[@]}"; do
        if [ "$scheme" = list ]; then figures=$(list); else figures=$("$work/dpdk-ring" "$scheme" "$senders" "$seconds" ${pin:+pin}); fi
        echo "$round $scheme $figures" | tee -a "$work/runs"
    done
done | awk 'BEGIN {printf "%5s %-6s %12s %8s %8s %9s %12s %9s\n", "round", "scheme", "items/s", "p50 ns", "p99 ns", "p99.9 ns", "max ns", "cpu ns"}
            {printf "%5s %-6s %12s %8s %8s %9s %12s %9s\n", $1, $2, $3, $4, $5, $6, $7, $8}'

python3 - "$work/runs" << 'END'
import statistics
import sys

runs = {}
for line in open(sys.argv[1]):
    round, scheme, *figures = line.split()
    runs.setdefault(scheme, []).append([float(figure) for figure in figures])

def spread(values, form):
    return f"{form % statistics.median(values)} [{form % min(values)}-{form % max(values)}]"

print("\n%-6s %24s %24s %16s %18s %22s" % ("scheme", "M items/s [min-max]", "x list [min-max]", "p50 ns", "p99 ns", "p99.9 ns [min-max]"))
for scheme, rows in runs.items():
    rate, p50, p99, p999 = zip(*(row[:4] for row in rows))
    ratio = [own / of_list[0] for own, of_list in zip(rate, runs["list"])]
    print("%-6s %24s %24s %16s %18s %22s" % (scheme, spread([r / 1e6 for r in rate], "%.1f"), spread(ratio, "%.2f"),
          spread(p50, "%.0f"), spread(p99, "%.0f"), spread(p999, "%.0f")))
END
