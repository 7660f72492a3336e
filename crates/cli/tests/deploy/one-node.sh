#!/usr/bin/env bash
# A Slurm of one node, all of whose files are below a folder: keys, state, logs. Ends with its process.
#
#   one-node.sh FOLDER ADDRESS
#
# Run in a namespace with this address, as root. Prints "idle" when jobs can be submitted, with SLURM_CONF=FOLDER/slurm.conf.
set -euo pipefail
folder=$1 address=$2 host=$(hostname -s)
PATH=$PATH:/usr/sbin
umask 077
mkdir -p "$folder/munge" "$folder/state" "$folder/spool"
head -c 1024 /dev/urandom >"$folder/munge/key"
cat >"$folder/slurm.conf" <<END
ClusterName=test
SlurmctldHost=$host($address)
AuthType=auth/munge
AuthInfo=socket=$folder/munge/socket
SlurmUser=root
SlurmdUser=root
StateSaveLocation=$folder/state
SlurmdSpoolDir=$folder/spool
SlurmctldPidFile=$folder/slurmctld.pid
SlurmdPidFile=$folder/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerParameters=sched_interval=1,batch_sched_delay=0,bf_interval=1
SlurmdParameters=config_overrides
MailProg=/bin/true
ReturnToService=2
NodeName=$host NodeAddr=$address CPUs=2 State=UNKNOWN
PartitionName=all Nodes=$host Default=YES MaxTime=INFINITE State=UP
END
export SLURM_CONF=$folder/slurm.conf
munged --force --foreground --key-file="$folder/munge/key" --socket="$folder/munge/socket" --pid-file="$folder/munge/pid" \
  --log-file="$folder/munge/log" --seed-file="$folder/munge/seed" >"$folder/munge.log" 2>&1 &
until [ -S "$folder/munge/socket" ]; do sleep 0.1; done
slurmctld -D -c -f "$SLURM_CONF" >"$folder/slurmctld.log" 2>&1 &
slurmd -D -f "$SLURM_CONF" >"$folder/slurmd.log" 2>&1 &
until [ "$(sinfo -h -o %T 2>"$folder/sinfo.log")" = idle ]; do sleep 0.2; done
echo idle
wait
