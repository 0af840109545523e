//go:build cgo && unix

package onnxruntime_test

import (
	"encoding/binary"
	"fmt"
	"math"

	ort "github.com/yalue/onnxruntime_go"
)

// A message of protocol buffers, of which an ONNX model consists. Numbers of fields are those of onnx.proto.
type message []byte

func (m message) number(field int, v uint64) message {
	return binary.AppendUvarint(binary.AppendUvarint(m, uint64(field)<<3), v)
}

func (m message) bytes(field int, b []byte) message {
	m = binary.AppendUvarint(m, uint64(field)<<3|2)
	return append(binary.AppendUvarint(m, uint64(len(b))), b...)
}

func (m message) text(field int, s string) message { return m.bytes(field, []byte(s)) }

// node is a node of a graph, with attributes that are integers.
func node(op string, inputs, outputs []string, attributes map[string]uint64) message {
	var m message
	for _, name := range inputs {
		m = m.text(1, name)
	}
	for _, name := range outputs {
		m = m.text(2, name)
	}
	m = m.text(4, op)
	for name, v := range attributes {
		m = m.bytes(5, message(nil).text(1, name).number(3, v).number(20, 2))
	}
	return m
}

// variable is an input or an output; an extent below 0 stands for any.
func variable(name string, dtype ort.TensorElementDataType, shape ...int64) message {
	var dims message
	for i, n := range shape {
		dim := message(nil).number(1, uint64(n))
		if n < 0 {
			dim = message(nil).text(2, fmt.Sprintf("%s%d", name, i))
		}
		dims = dims.bytes(1, dim)
	}
	tensor := message(nil).number(1, uint64(dtype)).bytes(2, dims)
	return message(nil).text(1, name).bytes(2, message(nil).bytes(1, tensor))
}

// constant is a tensor in the model.
func constant(name string, dtype ort.TensorElementDataType, raw []byte, shape ...int64) message {
	var m message
	for _, n := range shape {
		m = m.number(1, uint64(n))
	}
	return m.number(2, uint64(dtype)).text(8, name).bytes(9, raw)
}

func floats(values []float32) (raw []byte) {
	for _, v := range values {
		raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(v))
	}
	return raw
}

// model is a model of a graph.
func model(nodes, constants, inputs, outputs []message) []byte {
	var graph message
	for _, part := range []struct {
		field int
		of    []message
	}{{1, nodes}, {5, constants}, {11, inputs}, {12, outputs}} {
		for _, m := range part.of {
			graph = graph.bytes(part.field, m)
		}
	}
	graph = graph.text(2, "test")
	return message(nil).number(1, 8).bytes(7, graph).bytes(8, message(nil).number(2, 17))
}

// doubling is the model y = x + x.
func doubling(dtype ort.TensorElementDataType, shape ...int64) []byte {
	return model([]message{node("Add", []string{"x", "x"}, []string{"y"}, nil)}, nil,
		[]message{variable("x", dtype, shape...)}, []message{variable("y", dtype, shape...)})
}

// classifier is a model that finds the class whose mean is nearest to an image. Each mean has 64 elements. For an image
// x and a mean m, the distance is smallest where x·m - m·m/2 is largest.
func classifier(means []float32) []byte {
	classes := len(means) / 64
	weights, bias := make([]float32, len(means)), make([]float32, classes)
	for c := range classes {
		for i, v := range means[c*64 : c*64+64] {
			weights[i*classes+c] = v
			bias[c] -= v * v / 2
		}
	}
	class := ort.TensorElementDataType(ort.TensorElementDataTypeInt64)
	return model([]message{
		node("Cast", []string{"image"}, []string{"numbers"}, map[string]uint64{"to": ort.TensorElementDataTypeFloat}),
		node("Flatten", []string{"numbers"}, []string{"row"}, map[string]uint64{"axis": 1}),
		node("Gemm", []string{"row", "weights", "bias"}, []string{"scores"}, nil),
		node("ArgMax", []string{"scores"}, []string{"class"}, map[string]uint64{"axis": 1, "keepdims": 0}),
	}, []message{
		constant("weights", ort.TensorElementDataTypeFloat, floats(weights), 64, int64(classes)),
		constant("bias", ort.TensorElementDataTypeFloat, floats(bias), int64(classes)),
	}, []message{
		variable("image", ort.TensorElementDataTypeUint8, -1, 8, 8),
	}, []message{
		variable("scores", ort.TensorElementDataTypeFloat, -1, int64(classes)),
		variable("class", class, -1),
	})
}
