"""Two network namespaces joined by a veth pair, and mpirun across them; for the scripts of this folder.

Needs root, iproute2 and Open MPI. What it makes is gone when the block ends."""
import os
import subprocess
import tempfile
from contextlib import contextmanager
from pathlib import Path

SUBNET = "10.77.0"
ENVIRONMENT = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


class Namespaces:
    def __init__(self, names, agent):
        self.names = names
        # A command that starts two ranks, one in each.
        self.mpirun = ["ip", "netns", "exec", names[0], "mpirun", "--bind-to", "none", "--mca", "plm_rsh_agent", agent,
                       "--mca", "pml", "ob1", "--mca", "btl", "tcp,self", "--mca", "btl_tcp_if_include",
                       f"{SUBNET}.0/24", "--mca", "oob_tcp_if_include", f"{SUBNET}.0/24", "-H",
                       f"{SUBNET}.0:1,{SUBNET}.1:1", "-n", 2]

    def shape(self, rate):
        """Both ends send at most `rate`, as tc writes it; None: as it is."""
        for n, name in enumerate(self.names):
            ip("netns", "exec", name, "tc", "qdisc", "del", "dev", f"psv{n}", "root", check=False)
            if rate:
                ip("netns", "exec", name, "tc", "qdisc", "replace", "dev", f"psv{n}", "root", "tbf", "rate", rate, "burst",
                   "256kb", "latency", "50ms")


def ip(*words, check=True):
    subprocess.run(["ip", *words], check=check, stderr=None if check else subprocess.DEVNULL)


@contextmanager
def joined():
    names = [f"prestage{os.getpid()}-{n}" for n in range(2)]
    with tempfile.TemporaryDirectory() as folder:
        agent = Path(folder) / "agent"  # what mpirun starts its daemon on a host with: enters the namespace
        agent.write_text(f'#!/bin/sh\nhost=$1\nshift\nexec ip netns exec {names[0][:-1]}${{host##*.}} sh -c "$*"\n')
        agent.chmod(0o755)
        try:
            for name in names:
                ip("netns", "add", name)
            ip("link", "add", "psv0", "netns", names[0], "type", "veth", "peer", "name", "psv1", "netns", names[1])
            for n, name in enumerate(names):
                ip("-n", name, "addr", "add", f"{SUBNET}.{n}/24", "dev", f"psv{n}")
                ip("-n", name, "link", "set", f"psv{n}", "up")
                ip("-n", name, "link", "set", "lo", "up")
            yield Namespaces(names, agent)
        finally:
            for name in names:
                ip("netns", "del", name, check=False)
