"""Returns the sum of each row of a batch."""

import triton_python_backend_utils as utils


class TritonPythonModel:
    def execute(self, requests):
        return [
            utils.InferenceResponse([
                utils.Tensor("SUM", utils.get_input_tensor_by_name(r, "IN").as_numpy().sum(axis=1, keepdims=True))
            ])
            for r in requests
        ]
