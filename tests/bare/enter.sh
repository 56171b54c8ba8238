#!/bin/sh
# Enter a bare tree: sh enter.sh TREE USER FUSE COMMAND FOLDER…
# Inside `unshare` with mounts and processes of its own. pivot_root, not chroot: in a chroot the
# kernel refuses user namespaces. FOLDERs of this host are shown at their own paths, read-only.
set -eu
tree=$1 user=$2 fuse=$3 command=$4
shift 4
mount --bind "$tree" "$tree"
cd "$tree"
mkdir -p proc sys dev .host
mount -t proc proc proc
mount --rbind /sys sys
mount -t tmpfs -o mode=0755 dev dev
mkdir dev/pts dev/shm
for name in null zero full random urandom tty; do
    : > "dev/$name"
    mount --bind "/dev/$name" "dev/$name"
done
[ "$fuse" = no ] || mknod -m 0666 dev/fuse c 10 229
mount -t devpts -o newinstance,ptmxmode=0666,mode=0620,gid=5 devpts dev/pts
mount -t tmpfs -o mode=1777 shm dev/shm
ln -s pts/ptmx dev/ptmx
ln -s /proc/self/fd dev/fd
ln -s fd/0 dev/stdin
ln -s fd/1 dev/stdout
ln -s fd/2 dev/stderr
for folder do
    mkdir -p ".$folder"
    mount --bind -o ro "$folder" ".$folder"
done
pivot_root . .host
cd /
umount -l /.host
exec env -i TERM=dumb su -s /bin/bash - "$user" -c "$command"
