#!/usr/bin/env bash
# Receive cost beside DPDK: `napier bench rx-cost --other-core` and testpmd rxonly over net_memif, in turn.
#
#   scripts/dpdk/dpdk-rx-cost.sh [PAIRS]        default 10 pairs; needs dpdk-testpmd (Debian: dpdk-dev), root and two CPUs
#
# Both receive 64-byte frames on CPU 1 in bursts of 32 from a sender on CPU 0 that never stops, and both count only
# the calls that found packets (testpmd: --record-core-cycles). Prints a line per pair and the medians.
set -euo pipefail
cd "$(dirname "$0")/../.."

pairs=${1:-10}
command -v dpdk-testpmd > /dev/null || { echo "SKIPPED: dpdk-testpmd is not installed (Debian: apt-get install dpdk-dev)"; exit 0; }
[ "$(nproc)" -ge 2 ] || { echo "SKIPPED: needs two CPUs"; exit 0; }

cargo build --release --quiet
napier=${CARGO_TARGET_DIR:-$PWD/target}/release/napier
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# testpmd reports reference cycles and, beside them, the clock that it counts by.
# The server must listen before the client starts, and be asked before the client goes: a memif port forgets its counts.
testpmd_ns() {
    local socket=$work/memif.sock common="--no-huge -m 256 --no-pci -l 0,1"
    local ports="--auto-start --nb-cores=1 --burst=32 --total-num-mbufs=16384"
    rm -f "$socket"
    (sleep 6; echo "show fwd stats all"; echo "quit") |
        dpdk-testpmd $common --main-lcore 0 --file-prefix rx --vdev "net_memif0,role=server,id=0,socket=$socket,socket-abstract=no,rsize=10,bsize=2048" \
            -- -i --forward-mode=rxonly --record-core-cycles $ports > "$work/rx" 2>&1 &
    local rx=$!
    sleep 2
    (sleep 6; echo "quit") |
        dpdk-testpmd $common --main-lcore 1 --file-prefix tx --vdev "net_memif1,role=client,id=0,socket=$socket,socket-abstract=no,rsize=10,bsize=2048" \
            -- -i --forward-mode=txonly --txpkts=64 $ports > "$work/tx" 2>&1 &
    local tx=$!
    wait "$rx" || true
    kill "$tx" 2> /dev/null || true
    wait "$tx" 2> /dev/null || true
    { grep 'CPU cycles/packet=' "$work/rx" || true; } | tail -1 |
        sed -n 's/.*cycles\/packet=\([0-9.]*\) .* at \([0-9]*\) MHz.*/\1 \2/p' | awk '{printf "%.1f", $1 * 1000 / $2}'
}

napier_ns() {
    "$napier" bench rx-cost --other-core --runs 1 --millis 1000 --json |
        python3 -c 'import json, sys; print("%.1f" % next(r["ns_per_packet"]["median"] for r in json.load(sys.stdin)["rows"] if r["batch"] == 32))'
}

median() { sort -n | awk '{v[NR] = $1} END {print (NR % 2) ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2}'; }

printf '%-6s %12s %12s %8s\n' pair "napier ns" "testpmd ns" ratio
for pair in $(seq "$pairs"); do
    ours=$(napier_ns)
    theirs=$(testpmd_ns)
    [ -n "$theirs" ] || { echo "testpmd received nothing; it said:"; tail -5 "$work/rx"; exit 1; }
    echo "$ours $theirs" >> "$work/pairs"
    awk -v p="$pair" -v a="$ours" -v b="$theirs" 'BEGIN {printf "%-6s %12s %12s %8.2f\n", p, a, b, a / b}'
done
printf '%-6s %12s %12s %8s\n' median "$(awk '{print $1}' "$work/pairs" | median)" "$(awk '{print $2}' "$work/pairs" | median)" \
    "$(awk '{printf "%.2f\n", $1 / $2}' "$work/pairs" | median)"
