"""Each kind of bad request is refused with a message that names the field and what is expected."""

import numpy as np
import pytest

from parm_ray.serve.protocol import JSON_LENGTH
from tests.support.infer_requests import document, refused, tensor

SHAPE, DATA, DATATYPE = "inputs[0].shape", "inputs[0].data", "inputs[0].datatype"
SIZE = "inputs[0].parameters.binary_data_size"
FOUR = np.arange(4, dtype=np.float32).tobytes()


TENSORS = {
    "no shape": (tensor(shape=...), SHAPE, "a list of sizes", "nothing"),
    "shape a string": (tensor(shape="1,2,2"), SHAPE, "a list of sizes", "'1,2,2'"),
    "rank too low": (tensor(shape=[2, 2]), SHAPE, "[n, 2, 2]", "[2, 2]"),
    "rank too high": (tensor(shape=[1, 2, 2, 1]), SHAPE, "[n, 2, 2]", "[1, 2, 2, 1]"),
    "no batch dimension": (tensor(shape=[4]), SHAPE, "[n, 2, 2]", "[4]"),
    "wrong shape": (tensor(shape=[1, 2, 3], data=[0] * 6), SHAPE, "[n, 2, 2]", "[1, 2, 3]"),
    "-1": (tensor(shape=[-1, 2, 2]), SHAPE, "sizes from 0", "-1"),
    "fraction of a query": (tensor(shape=[1.5, 2, 2]), SHAPE, "sizes", "1.5"),
    "true": (tensor(shape=[True, 2, 2]), SHAPE, "sizes", "true"),
    "sizes whose product overflows": (tensor(shape=[2**62, 2**62, 4]), SHAPE, "2147483647", str(2**62)),
    "astronomic size": (tensor(shape=[10**400, 2, 2]), SHAPE, "2147483647", "1329 bits"),
    "endless shape": (tensor(shape=[1] * 100_000), SHAPE, "[n, 2, 2]", "..."),
    "no queries": (tensor(shape=[0, 2, 2], data=[]), SHAPE, "1 to 64 queries", "0"),
    "no datatype": (tensor(datatype=...), DATATYPE, "FP32", "nothing"),
    "other datatype": (tensor(datatype="FP64"), DATATYPE, "FP32", "'FP64'"),
    "lower case": (tensor(datatype="fp32"), DATATYPE, "FP32", "'fp32'"),
    "datatype a list": (tensor(datatype=["FP32"]), DATATYPE, "FP32", "['FP32']"),
    "files for no image model": (tensor(datatype="BYTES", shape=[1]), DATATYPE, "FP32", "'BYTES'"),
    "no name": (tensor(name=...), "inputs[0].name", "'image'", "nothing"),
    "other name": (tensor(name="x" * 9999), "inputs[0].name", "'image'", "..."),
    "no data": (tensor(data=...), DATA, "binary_data_size", "nothing"),
    "data a number": (tensor(data=1), DATA, "4 values", "1"),
    "data a string": (tensor(data="AAAA"), DATA, "4 values", "'AAAA'"),
    "data null": (tensor(data=None), DATA, "4 values", "nothing"),
    "too few": (tensor(data=[1, 2, 3]), DATA, "4 values", "3 values"),
    "too many": (tensor(data=[1] * 5), DATA, "4 values", "5 values"),
    "ragged": (tensor(data=[[[1, 2], [3]]]), DATA, "nested as [1, 2, 2]", "[1, 2]"),
    "null value": (tensor(data=[1, None, 3, 4]), DATA, "numbers for FP32", "null at 1"),
    "true value": (tensor(data=[1, 2.5, 3, True]), DATA, "numbers for FP32", "true at 3"),
    "text value": (tensor(data=["1", 2, 3, 4]), DATA, "numbers for FP32", "'1' at 0"),
    "object value": (tensor(data=[{}, 2, 3, 4]), DATA, "numbers for FP32", "an object of 0 keys"),
    "astronomic value": (tensor(data=[10**400, 2, 3, 4]), DATA, "FP32 can hold", "1329 bits at 0"),
    "overflow": (tensor(data=[1, 2, 1e39, 4]), DATA, "FP32 can hold", "1e+39"),
    "parameters a list": (tensor(parameters=[]), "inputs[0].parameters", "an object", "[]"),
    "size but no header": (
        tensor(data=..., parameters={"binary_data_size": 16}),
        JSON_LENGTH,
        "header",
        "no",
    ),
}


@pytest.mark.parametrize("case", TENSORS)
def test_a_bad_tensor(case):
    bad, field, expectation, got = TENSORS[case]
    error, message = refused(document([bad]))
    assert error.field == field
    for words in (field, expectation, got):
        assert words in message


DOCUMENTS = {
    "no inputs": (document(inputs=None), "inputs", "a list of one tensor", "nothing"),
    "inputs an object": (document({"image": tensor()}), "inputs", "one tensor", "an object"),
    "empty inputs": (document([]), "inputs", "one tensor", "0 tensors"),
    "two inputs": (document([tensor()] * 2), "inputs", "one tensor", "2 tensors"),
    "a number for a tensor": (document([5]), "inputs", "one tensor", "[5]"),
    "id a number": (document(id=5), "id", "a string", "5"),
    "parameters a string": (document(parameters="x"), "parameters", "an object", "'x'"),
    "outputs an object": (document(outputs={}), "outputs", "a list of one, 'logits'", "object"),
    "two outputs": (document(outputs=[{"name": "logits"}] * 2), "outputs", "one, 'logits'", "object"),
    "outputs of null": (document(outputs=[None]), "outputs", "one, 'logits'", "null"),
    "unnamed output": (document(outputs=[{}]), "outputs[0].name", "'logits'", "nothing"),
    "other output": (document(outputs=[{"name": "y"}]), "outputs[0].name", "'logits'", "'y'"),
    "output parameters": (
        document(outputs=[{"name": "logits", "parameters": 1}]),
        "outputs[0].parameters",
        "an object",
        "1",
    ),
    "binary_data a number": (
        document(outputs=[{"name": "logits", "parameters": {"binary_data": 1}}]),
        "outputs[0].parameters.binary_data",
        "true or false",
        "1",
    ),
    "binary_data_output a string": (
        document(parameters={"binary_data_output": "yes"}),
        "parameters.binary_data_output",
        "true or false",
        "'yes'",
    ),
    "redundancy": (document(parameters={"redundancy": 0}), "parameters.redundancy", "true or false", "0"),
    "deadline a string": (
        document(parameters={"deadline_ms": "5"}),
        "parameters.deadline_ms",
        "milliseconds",
        "'5'",
    ),
    "deadline true": (document(parameters={"deadline_ms": True}), "parameters.deadline_ms", "number", "true"),
    "deadline too far": (
        document(parameters={"deadline_ms": 3_600_001}),
        "parameters.deadline_ms",
        "at most 3600000",
        "3600001",
    ),
    "deadline NaN": (
        document(parameters={"deadline_ms": float("nan")}),
        "parameters.deadline_ms",
        "number",
        "nan",
    ),
    "deadline without end": (
        document(parameters={"deadline_ms": float("inf")}),
        "parameters.deadline_ms",
        "at most",
        "inf",
    ),
    "deadline astronomic": (
        document(parameters={"deadline_ms": 10**400}),
        "parameters.deadline_ms",
        "at most",
        "1329 bits",
    ),
    "timeout a string": (
        document(parameters={"timeout": "1s"}),
        "parameters.timeout",
        "microseconds, at most 3600000000",
        "'1s'",
    ),
    "timeout false": (document(parameters={"timeout": False}), "parameters.timeout", "microseconds", "false"),
}


@pytest.mark.parametrize("case", DOCUMENTS)
def test_a_bad_document(case):
    bad, field, expectation, got = DOCUMENTS[case]
    error, message = refused(bad)
    assert error.field == field
    for words in (field, expectation, got):
        assert words in message
