//go:build cgo && unix

package onnxruntime

import ort "github.com/yalue/onnxruntime_go"

// Located is where ONNX Runtime says that the memory of a value lies.
func (l *Library) Located(v ort.Value) (address uintptr, place string, id int32, err error) {
	d, err := l.table.describe(valueHandle(v))
	return d.data, d.place, d.id, err
}
