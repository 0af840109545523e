"""An ONNX model runs through ONNX Runtime on tensors of dlx, and on their memory."""

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper

import dlx


@pytest.fixture(scope="module")
def session():
    """y = relu(x @ w + b)."""
    w = np.arange(12, dtype=np.float32).reshape(4, 3) - 5
    nodes = [helper.make_node("MatMul", ["x", "w"], ["xw"]), helper.make_node("Add", ["xw", "b"], ["z"]),
             helper.make_node("Relu", ["z"], ["y"])]
    graph = helper.make_graph(
        nodes, "layer", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 3])],
        [onnx.numpy_helper.from_array(w, "w"), onnx.numpy_helper.from_array(np.ones(3, np.float32), "b")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.checker.check_model(model)
    return ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])


X = np.arange(8, dtype=np.float32).reshape(2, 4)
EXPECTED = np.maximum(X @ (np.arange(12, dtype=np.float32).reshape(4, 3) - 5) + 1, 0)


def test_input_and_output_are_dlx_tensors(session):
    x, y = dlx.empty((2, 4), "float32"), dlx.empty((2, 3), "float32")
    np.from_dlpack(x)[:] = X
    there = ort.OrtValue.from_dlpack(x)
    result = ort.OrtValue.from_dlpack(y)
    assert (there.data_ptr(), result.data_ptr()) == (x.data_ptr, y.data_ptr)
    binding = session.io_binding()
    binding.bind_ortvalue_input("x", there)
    binding.bind_ortvalue_output("y", result)
    session.run_with_iobinding(binding)
    assert (np.from_dlpack(y) == EXPECTED).all()  # it was written into our memory


def test_input_by_address(session):
    x = dlx.from_dlpack(X.copy())
    binding = session.io_binding()
    binding.bind_input("x", "cpu", 0, np.float32, x.shape, x.data_ptr)
    binding.bind_output("y")
    session.run_with_iobinding(binding)
    assert (binding.get_outputs()[0].numpy() == EXPECTED).all()


def test_dlx_takes_the_output(session):
    outputs = session.run_with_ort_values(None, {"x": ort.OrtValue.from_dlpack(dlx.from_dlpack(X.copy()))})
    y = dlx.from_dlpack(outputs[0])
    assert y.data_ptr == outputs[0].data_ptr()
    del outputs
    assert (np.from_dlpack(y) == EXPECTED).all()
