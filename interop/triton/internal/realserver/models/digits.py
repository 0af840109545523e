"""Classifies images of digits: the scores of an image are how near it is to the mean image of each digit.

The means are those of the first 1,200 images in testdata; the others are for tests.
"""

import json
import os

import numpy
import triton_python_backend_utils as utils

TRAINING = 1200


class TritonPythonModel:
    def initialize(self, args):
        folder = json.loads(args["model_config"])["parameters"]["testdata"]["string_value"]
        images = numpy.load(os.path.join(folder, "digits.npy"))[:TRAINING]
        images = images.reshape(len(images), -1).astype(numpy.float32)
        digits = numpy.load(os.path.join(folder, "digits_target.npy"))[:TRAINING]
        self.means = numpy.stack([images[digits == d].mean(axis=0) for d in range(10)])

    def execute(self, requests):
        responses = []
        for r in requests:
            images = utils.get_input_tensor_by_name(r, "IMAGE").as_numpy()
            images = images.reshape(len(images), -1).astype(numpy.float32)
            distances = ((images[:, None] - self.means[None]) ** 2).sum(axis=2)
            responses.append(utils.InferenceResponse([utils.Tensor("SCORES", -distances)]))
        return responses
