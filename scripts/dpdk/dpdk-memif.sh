#!/usr/bin/env bash
# Two processes over memif: two Napier and two testpmd in turn, batch 32, packets of 64 bytes.
#
#   scripts/dpdk/dpdk-memif.sh [ROUNDS] [SECONDS]      default 7 rounds of 3 s each; needs dpdk-testpmd with the memif driver (Debian:
#                                             apt-get install dpdk-dev librte-net-memif23), root and two CPUs
#
# one-way: the client sends as fast as it can (txonly), the server receives and drops (rxonly).
# forward: both send back what they receive (io), with 512 packets on the way.
# In every case one thread per process, on a CPU of its own. Prints a line per round, then median [min-max] of each and the
# ratio of Napier to testpmd within the rounds.
set -euo pipefail
cd "$(dirname "$0")/../.."

rounds=${1:-7} seconds=${2:-3}
command -v dpdk-testpmd > /dev/null ||
    { echo "SKIPPED: dpdk-testpmd is not installed (Debian: apt-get install dpdk-dev librte-net-memif23)"; exit 0; }
[ "$(nproc)" -ge 2 ] || { echo "SKIPPED: needs two CPUs"; exit 0; }

if [ -z "${NAPIER:-}" ]; then
    cargo build --release --quiet
    NAPIER=${CARGO_TARGET_DIR:-$PWD/target}/release/napier
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export RUNTIME_DIRECTORY=$work

run_testpmd() {
    local server_mode=$1 client_mode=$2 first=$3 socket=$work/dpdk.sock
    local common="--no-huge -m 256 --no-pci --no-telemetry -l 0,1"
    local ports="--nb-cores=1 --burst=32 --total-num-mbufs=16384 --no-flush-rx"
    rm -f "$socket"
    # The server's statistics are asked for; a memif port forgets them when its peer goes.
    (sleep 9; echo "clear fwd stats all"; sleep "$seconds"; echo "show fwd stats all"; echo "quit") |
        dpdk-testpmd $common --main-lcore 0 --file-prefix memif-a \
            --vdev "net_memif0,role=server,id=0,socket=$socket,socket-abstract=no,rsize=10,bsize=2048" \
            -- -i --forward-mode="$server_mode" --auto-start $ports > "$work/a" 2>&1 &
    local server=$!
    sleep 1.5
    (sleep 5; echo "set fwd $client_mode"; echo "start"
     # Only a client that has received once has posted buffers; before, the server drops what it would send back.
     if [ "$first" -gt 0 ]; then sleep 0.5; echo "stop"; echo "start tx_first $((first / 32))"; fi
     sleep $((seconds + 4)); echo "quit") |
        dpdk-testpmd $common --main-lcore 1 --file-prefix memif-b \
            --vdev "net_memif1,role=client,id=0,socket=$socket,socket-abstract=no,rsize=10,bsize=2048" \
            -- -i --txpkts=64 $ports > "$work/b" 2>&1 &
    local client=$!
    wait "$server" || true
    kill -KILL "$client" 2> /dev/null || true
    wait "$client" 2> /dev/null || true
}

# What the first "show fwd stats" printed, before the ports are closed.
shown() { sed -n '/Forward statistics for port 0/,/-----/p' "$work/a" | grep RX-packets | head -1 > "$work/a.shown" || true; }

testpmd() {
    run_testpmd "$@"
    shown
    awk -v s="$seconds" '/RX-packets:/ {printf "%.0f", $2 / s}' "$work/a.shown"
}

napier() {
    local server_mode=$1 client_mode=$2 first=$3 socket=$work/napier.sock
    "$NAPIER" bench memif --role server --socket "$socket" --mode "$server_mode" --cpu 1 --runs 1 --seconds "$seconds" --json > "$work/n" &
    local server=$!
    # The client goes on for longer than the server measures.
    "$NAPIER" bench memif --role client --socket "$socket" --mode "$client_mode" --cpu 0 --runs 1 --seconds 3600 --first "$first" > /dev/null 2>&1 &
    local client=$!
    wait "$server"
    kill -KILL "$client" 2> /dev/null || true
    wait "$client" 2> /dev/null || true
    python3 -c 'import json, sys; print("%.0f" % json.load(sys.stdin)["rows"][0]["packets_per_s"]["median"])' < "$work/n"
}

for round in $(seq "$rounds"); do
    echo "$round one-way napier $(napier receive send 0)"
    echo "$round one-way testpmd $(testpmd rxonly txonly 0)"
    echo "$round forward napier $(napier forward forward 512)"
    echo "$round forward testpmd $(testpmd io io 512)"
done | tee "$work/runs" | awk 'BEGIN {printf "%5s %-8s %-8s %16s\n", "round", "what", "who", "packets/s"} {printf "%5s %-8s %-8s %16s\n", $1, $2, $3, $4}'

python3 - "$work/runs" << 'END'
import statistics
import sys

runs = {}
for line in open(sys.argv[1]):
    round, what, who, *rate = line.split()
    if rate and float(rate[0]) > 0:
        runs.setdefault(what, {}).setdefault(who, {})[round] = float(rate[0])

def spread(values, form):
    return f"{form % statistics.median(values)} [{form % min(values)}-{form % max(values)}]"

print("\n%-8s %24s %24s %22s" % ("", "napier M/s [min-max]", "testpmd M/s [min-max]", "napier / testpmd"))
for what, who in runs.items():
    ours, theirs = who.get("napier", {}), who.get("testpmd", {})
    both = sorted(set(ours) & set(theirs))
    if not both:
        print("%-8s one of the two moved no packets: %s" % (what, {name: len(rates) for name, rates in who.items()}))
        continue
    ratio = [ours[round] / theirs[round] for round in both]
    print("%-8s %24s %24s %22s" % (what, spread([r / 1e6 for r in ours.values()], "%.1f"),
          spread([r / 1e6 for r in theirs.values()], "%.1f"), spread(ratio, "%.2f")))
END
