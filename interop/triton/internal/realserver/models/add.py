"""Returns the sum of its inputs."""

import triton_python_backend_utils as utils


class TritonPythonModel:
    def execute(self, requests):
        return [
            utils.InferenceResponse([
                utils.Tensor(
                    "SUM",
                    utils.get_input_tensor_by_name(r, "A").as_numpy() + utils.get_input_tensor_by_name(r, "B").as_numpy(),
                )
            ])
            for r in requests
        ]
