#!/bin/sh
# The guest's first process (emulation/virtual/machine.py). The run's own directory is the one that the guest's own process has
# on the machine: it holds `command`, a shell script, and gets the exit status.
# The machine's files are the lower layer of an overlay: what the guest writes stays in its memory, except below the directories
# that `writable` lists, one a line.
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
run=$(readlink /proc/self/cwd)  # of the machine's /proc, as long as the guest's own is not mounted
mount -t tmpfs -o size=80% tmpfs /mnt
mkdir /mnt/upper /mnt/work /mnt/root
mount -t overlay -o "lowerdir=/,upperdir=/mnt/upper,workdir=/mnt/work,xino=off" overlay /mnt/root
mount -t tmpfs -o mode=755 tmpfs /mnt/root/run
mkdir -p "/mnt/root$run"
echo "$run" | cat - "$run/writable" | while read -r directory; do
  mkdir -p "/mnt/root$directory"
  mount -t hostfs -o "$directory" hostfs "/mnt/root$directory"
done
cd /mnt/root || halt -f -p
mount -t proc proc proc
mount -t sysfs sysfs sys
mount -t devtmpfs devtmpfs dev
mkdir -p dev/pts dev/shm run/netns run/lock
mount -t devpts devpts dev/pts
mount -t tmpfs tmpfs dev/shm
mkdir -m 1777 dev/shm/tmp
mount -t cgroup2 cgroup2 sys/fs/cgroup
mount -t bpf bpf sys/fs/bpf
mount -t debugfs debugfs sys/kernel/debug
pivot_root . mnt && cd / && umount -l /mnt
ip link set lo up
# Open vSwitch counts processors once in 10 s of the monotonic clock, which began at 0: before that it would find none.
sleep 20
# What is printed goes by files, each write at once on the machine: a console would interrupt the guest by the machine's clock, and
# no run would be like another.
keep="dd bs=64k oflag=dsync,append conv=notrunc status=none"
{
  {
    setsid -w sh "$run/command" </dev/null
    echo $? >"$run/status"
  } 2>&1 1>&3 | $keep of="$run/stderr"
} 3>&1 | $keep of="$run/stdout"
sync
halt -f -p >/dev/null 2>&1
