"""Returns its input after a second."""

import time

import triton_python_backend_utils as utils


class TritonPythonModel:
    def execute(self, requests):
        time.sleep(1)
        return [
            utils.InferenceResponse([utils.Tensor("OUT", utils.get_input_tensor_by_name(r, "IN").as_numpy())])
            for r in requests
        ]
