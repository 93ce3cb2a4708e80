#!/bin/sh
# guest.sh BUILT RESULTS PYTEST-ARGUMENT...   Runs in the guest, as root.
# /dev/vda has Python, pytest, tools and Baton (through the 9p root `import pytest` alone takes a minute). BUILT caches the compiled
# eBPF programs; RESULTS, a directory of the machine outside, gets a log and, last, the exit status.
set -eu
BUILT=$1 RESULTS=$2
shift 2
exec >"$RESULTS/log" 2>&1
echo "stock kernel $(uname -r), up for $(cut -d' ' -f1 /proc/uptime) s"
modprobe virtio_blk
modprobe ext4
mkdir /run/disk
for _ in 1 2 3 4 5 6 7 8 9 10; do [ -b /dev/vda ] && break; sleep 0.5; done
mount -o noatime /dev/vda /run/disk
mount --bind /run/disk/stdlib /usr/lib/python3.11
mkdir -p /run/disk/baton/ebpf/build
mount --bind "$BUILT" /run/disk/baton/ebpf/build
ip link set lo up
cd /run/disk/baton
echo "ready after $(cut -d' ' -f1 /proc/uptime) s"
export PATH=/run/disk/bin:$PATH LD_LIBRARY_PATH=/run/disk/lib
status=0
BATON_STOCK_KERNEL=1 PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=/run/disk/site:/run/disk/baton python3.11 -S -m pytest \
    -p no:cacheprovider "$@" || status=$?
echo "done after $(cut -d' ' -f1 /proc/uptime) s"
echo "$status" >"$RESULTS/status"
