"""The same query by every door, on a real Serve application."""

import json
import os
import signal

import numpy as np
import pytest
import tritonclient.http as triton
from tritonclient.utils import InferenceServerException


def test_json_binary_and_handle_give_equal_answers(server):
    image = server.images[:1]
    status, headers, document = server.infer(image, redundancy=False)
    assert status == 200
    assert headers["x-parm-outcome"] == document["parameters"]["outcome"] == "original"
    by_json = np.array(document["outputs"][0]["data"], np.float32)

    client = triton.InferenceServerClient(server.url.removeprefix("http://"))
    tensor = triton.InferInput("image", list(image.shape), "UINT8").set_data_from_numpy(
        image, binary_data=True
    )
    wanted = triton.InferRequestedOutput("logits", binary_data=True)
    result = client.infer(server.model, [tensor], outputs=[wanted], parameters={"redundancy": False})
    by_binary = result.as_numpy("logits")[0]

    _, _, body = server.request("/caller?redundancy=off", image.tobytes())
    by_handle = json.loads(body)
    assert by_handle["outcome"] == "original"

    np.testing.assert_array_equal(by_json, by_binary)
    np.testing.assert_array_equal(by_json, np.array(by_handle["output"], np.float32))
    client.close()


def test_answers_are_as_accurate_as_the_model(server):
    images, labels = server.images[:200], server.labels[:200]
    right = 0
    for start in range(0, 200, 50):
        status, _, document = server.infer(images[start : start + 50])
        assert status == 200
        outputs = np.array(document["outputs"][0]["data"]).reshape(-1, 10)
        right += int((outputs.argmax(1) == labels[start : start + 50]).sum())
        assert len(document["parameters"]["outcomes"].split(",")) == 50
    assert right >= 0.92 * 200


def test_late_answers_are_reconstructed_marked_and_compared(server):
    before = server.stats()
    pids = server.pids("DeployedModel")
    assert len(pids) == 2
    for pid in pids:
        assert server.cluster.owns(pid)
        os.kill(pid, signal.SIGSTOP)
    try:
        images, labels = server.images[:2], server.labels[:2]
        status, headers, document = server.infer(images, deadline_ms=4000)
        assert status == 200
        assert document["parameters"]["outcomes"] == "reconstructed,reconstructed"
        assert headers["x-parm-outcome"] == "reconstructed"
        assert headers["x-parm-slot"] in ("0,1", "1,0")
        assert min(float(v) for v in headers["x-parm-lateness-ms"].split(",")) > 0
        outputs = np.array(document["outputs"][0]["data"]).reshape(-1, 10)
        assert (outputs.argmax(1) == labels).all()
        # Opted out, and both replicas are still busy with the calls above: nothing can answer.
        status, _, document = server.infer(images[:1], redundancy=False, deadline_ms=300)
        assert status == 504
        assert "deadline" in document["error"]
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)
    after = wait_for(server, lambda s: s["groups_open"] == 0 and s["calls_outstanding"] == 0)
    assert after["outcomes"]["reconstructed"] == before["outcomes"]["reconstructed"] + 2
    assert after["agreement"]["total"] == before["agreement"]["total"] + 2
    assert after["agreement"]["agreed"] == before["agreement"]["agreed"] + 2
    assert after["futures_open"] == after["queries_open"] == after["timers_open"] == 0


def test_a_killed_replica_costs_no_query_and_is_replaced(server):
    victim = server.pids("DeployedModel")[0]
    assert server.cluster.owns(victim)
    os.kill(victim, signal.SIGKILL)
    for i in range(20):
        status, _, document = server.infer(server.images[i : i + 2])
        assert status == 200, document
    wait_for(
        server,
        lambda s: s["pools"]["deployed"]["replicas"] == 2 and victim not in server.pids("DeployedModel"),
    )


def test_triton_client_sees_health_and_metadata(server):
    client = triton.InferenceServerClient(server.url.removeprefix("http://"))
    assert client.is_server_live()
    assert client.is_server_ready()
    assert client.is_model_ready(server.model)
    assert "binary_tensor_data" in client.get_server_metadata()["extensions"]
    metadata = client.get_model_metadata(server.model)
    assert metadata["inputs"] == [{"name": "image", "datatype": "UINT8", "shape": [-1, 8, 8, 1]}]
    assert metadata["outputs"] == [{"name": "logits", "datatype": "FP32", "shape": [-1, 10]}]
    with pytest.raises(InferenceServerException, match="nobody"):
        client.get_model_metadata("nobody")
    client.close()


def test_an_image_file_is_decoded_and_resized_in_the_ingress(server):
    import cv2

    picture = cv2.resize(server.images[3] * 16, (64, 64), interpolation=cv2.INTER_NEAREST)
    ok, png = cv2.imencode(".png", picture)
    assert ok
    client = triton.InferenceServerClient(server.url.removeprefix("http://"))
    tensor = triton.InferInput("image", [1], "BYTES")
    tensor.set_data_from_numpy(np.array([png.tobytes()], dtype=np.object_), binary_data=True)
    result = client.infer(server.model, [tensor])
    assert result.as_numpy("logits").shape == (1, 10)
    client.close()


def wait_for(server, condition, tries=150):
    """Poll the stats page until `condition` holds."""
    import time

    for _ in range(tries):
        stats = server.stats()
        if condition(stats):
            return stats
        time.sleep(0.2)
    raise AssertionError(f"never came true: {stats}")


def test_observations_are_json_over_http(server):
    server.infer(server.images[:4])
    status, _, body = server.request(f"/v2/models/{server.model}/observations")
    page = json.loads(body)
    assert status == 200
    assert page["plan"]["name"] == "coded k=2"
    assert len(page["calls"]["deployed"]["seconds"]) >= 4
    assert page["rates"]["queries"] > 0
    assert (page["pairs"], page["shadow"], page["auto"]) == ([], None, None)
    assert server.request("/v2/models/nobody/observations")[0] == 404
