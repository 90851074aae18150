"""What kind of process the ingress is, and what it reports."""

import time
import urllib.request

import psutil


def test_the_ingress_is_small_and_has_no_torch(server):
    stats = server.stats()
    process = psutil.Process(stats["pid"])
    libraries = {m.path for m in process.memory_maps()}
    assert not [path for path in libraries if "/torch/" in path or "/torchvision/" in path]
    assert stats["rss_bytes"] < 350e6


def test_metrics_reach_prometheus(server):
    server.infer(server.images[:2])
    wanted = {
        "ray_parm_answers_total{",
        "ray_parm_latency_ms_bucket{",
        "ray_parm_group_fill_bucket{",
        "ray_parm_coding_us_bucket{",
        "ray_parm_queued_batches{",
        "ray_parm_pool_utilisation{",
    }
    port = server.cluster.metrics_port
    for _ in range(60):
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as response:
            text = response.read().decode()
        if not (missing := {name for name in wanted if name not in text}):
            break
        time.sleep(0.5)
    assert not missing
    line = next(line for line in text.splitlines() if line.startswith("ray_parm_answers_total{"))
    assert 'deployment="Ingress"' in line
    assert 'outcome="original"' in text
