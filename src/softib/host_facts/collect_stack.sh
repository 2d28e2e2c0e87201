#!/bin/sh
# Print a gzip-compressed tar archive of the files and the output of commands that `softib stack` reads. Needs GNU tar.
# Writes only to a temporary folder, which it removes. Each command may take 0.8 s; they run at the same time.
export LC_ALL=C PATH="$PATH:/usr/sbin:/sbin"
t=$(mktemp -d) || exit 1
trap 'rm -rf "$t"' EXIT
mkdir -p "$t/commands"
run() {
    name=$1
    shift
    command -v "$1" >/dev/null 2>&1 && timeout 0.8 "$@" >"$t/commands/$name" 2>/dev/null </dev/null
}
run ofed_info ofed_info -s &
run ibv_devinfo ibv_devinfo -v &
run lspci lspci -Dvvv &
run ucx_info ucx_info -v &
run ompi_info ompi_info --version &
run mpichversion mpichversion &
for device in /sys/class/infiniband/*/device; do
    [ -e "$device" ] || continue
    address=$(basename "$(readlink -f "$device")")
    run "mlxconfig-$address" mlxconfig -d "$address" q &
done
env | grep -E '^(NCCL|UCX|OMPI|MPICH|FI|MLX5|RDMAV|IBV)_' | sort >"$t/commands/env"
ls -d /usr/lib*/lib* /usr/lib/*/lib* /usr/local/lib/lib* /usr/local/cuda/lib64/lib* /opt/*/lib/lib* 2>/dev/null |
    grep -E '/lib(nccl|ibverbs|mpi|mpich)\.so\.[0-9.]+$' >"$t/commands/libraries"
readlink -f /sys/class/infiniband/*/device $(grep -lE '0x10de|0x1002' /sys/bus/pci/devices/*/vendor 2>/dev/null |
    sed 's|/vendor$||') >"$t/commands/pci_paths"
for file in proc/cmdline proc/meminfo proc/sys/kernel/osrelease proc/sys/kernel/hostname proc/self/limits \
    etc/os-release; do
    mkdir -p "$t/$(dirname $file)"
    cat "/$file" >"$t/$file" 2>/dev/null
done
{
    for file in /sys/class/infiniband/*/fw_ver /sys/class/infiniband/*/hca_type /sys/class/infiniband/*/board_id \
        /sys/class/infiniband/*/node_guid /sys/class/infiniband/*/device/numa_node \
        /sys/class/infiniband/*/device/*_link_speed /sys/class/infiniband/*/device/*_link_width \
        /sys/class/infiniband/*/device/sriov_*vfs /sys/class/infiniband/*/device/sriov/*/node \
        /sys/class/infiniband/*/device/sriov/*/port /sys/class/infiniband/*/device/physfn/vendor \
        /sys/class/infiniband/*/device/iommu_group/type /sys/class/infiniband/*/ports/*/state \
        /sys/class/infiniband/*/ports/*/phys_state /sys/class/infiniband/*/ports/*/rate \
        /sys/class/infiniband/*/ports/*/link_layer /sys/class/infiniband/*/ports/*/lid \
        /sys/class/net/*/mtu /sys/class/net/*/type /sys/devices/system/node/node*/distance \
        /sys/kernel/mm/hugepages/*/nr_hugepages /sys/kernel/mm/transparent_hugepage/enabled \
        /sys/module/mlx5_core/version /sys/module/mlx5_ib/version /sys/module/nvidia/version \
        /sys/module/nvidia_peermem/initstate /sys/module/nv_peer_mem/initstate \
        /etc/nccl.conf /etc/ucx/ucx.conf; do
        [ -f "$file" ] && echo "$file"
    done
    for vendor in $(grep -lE '0x10de|0x1002' /sys/bus/pci/devices/*/vendor 2>/dev/null); do
        folder=${vendor%/vendor}
        for file in vendor device class numa_node iommu_group/type; do
            [ -f "$folder/$file" ] && echo "$folder/$file"
        done
    done
    grep -Lxs 0x0000 /sys/class/infiniband/*/ports/*/pkeys/*
} >"$t/list"
wait
tar -czf - --ignore-failed-read -T "$t/list" -C "$t" commands proc etc 2>/dev/null
exit 0
