"""Errors in files of jobs and hosts: each names the file and the entry."""

from __future__ import annotations

import json

import pytest

from softib.analysis.jobs.files import read_hosts, read_jobs
from softib.errors import InputError, LimitError

UNCLOSED = "node[001-004"
TOO_MANY = "node[000001-999999]"


@pytest.mark.parametrize(("hosts", "error"), [(UNCLOSED, InputError), (TOO_MANY, LimitError)])
@pytest.mark.parametrize(
    ("text", "entry"),
    [
        ('{{"jobs": [{{"job_id": 1, "job_state": "RUNNING", "nodes": {0}}}]}}', r"jobs\[0\]"),
        ('{{"jobs": [{{"name": "train", "hosts": [{0}]}}]}}', "job train"),
        ("train: [{0}]", "job train"),
    ],
    ids=["slurm", "plain", "yaml"],
)
def test_a_hostlist_that_is_wrong_is_named_with_its_job(tmp_path, text, entry, hosts, error):
    path = tmp_path / "jobs"
    path.write_text(text.format(json.dumps(hosts)))
    with pytest.raises(error, match=rf"^{path}: {entry}: .*node\["):
        read_jobs(path)


@pytest.mark.parametrize("hosts", [UNCLOSED, "$HOME"])
def test_a_host_that_is_wrong_is_named_with_its_file(tmp_path, hosts):
    path = tmp_path / "hosts"
    path.write_text(f"node-1\n{hosts}\n")
    with pytest.raises(InputError, match=rf"^{path}: "):
        read_hosts(path)
