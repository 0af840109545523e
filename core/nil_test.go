package core_test

import (
	"testing"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
)

func TestNilArguments(t *testing.T) {
	const state, panics = "it changes the state of the process", "it panics, as an index of a slice does"
	const format = "package fmt calls it"
	sound := keeper(t)(core.FromSlice([]float32{1, 2, 3, 4}, 2, 2))
	buffer, err := sound.Buffer()
	if err != nil {
		t.Fatal(err)
	}
	coretest.CheckNils(t, map[string]any{
		"As": core.As[core.HostViewer],
		"At": core.At[float32], "Set": core.Set[float32], "Fill": core.Fill[float32], "ToSlice": core.ToSlice[float32], "Equal": core.Equal, "EqualBits": core.EqualBits,
		"Alloc": core.Alloc, "Convert": core.Convert, "ConvertScaled": core.ConvertScaled, "CheckConversion": core.CheckConversion, "Scaling": core.Scaling{},
		"Empty": core.Empty, "ParseDeviceType": core.ParseDeviceType, "ParseDevice": core.ParseDevice, "ParseDType": core.ParseDType, "DTypeOf": core.DTypeOf[float32],
		"FromSlice": core.FromSlice[float32], "FromSliceStrided": core.FromSliceStrided[float32], "Errorf": core.Errorf,
		"NewLayout": core.NewLayout, "NewStridedLayout": core.NewStridedLayout,
		"Live": core.Live, "OpenTensors": core.OpenTensors, "TraceOpen": state,
		"UnmarshalExternalMemory": core.UnmarshalExternalMemory, "UnmarshalExternalSemaphore": core.UnmarshalExternalSemaphore, "UnmarshalExternalEvent": core.UnmarshalExternalEvent,
		"ReadMetrics":        core.ReadMetrics,
		"SamePhysicalDevice": core.SamePhysicalDevice,
		"Span":               core.Span[float32], "Stack": core.Stack, "Concat": core.Concat, "MutableSpan": core.MutableSpan[float32], "Wrap": core.Wrap, "NewTensor": core.NewTensor,
		"Values": core.Values[float32], "ValuesWithoutWaiting": core.ValuesWithoutWaiting[float32], "Mutable": core.Mutable[float32], "MutableWithoutWaiting": core.MutableWithoutWaiting[float32],
		"All": core.All[float32], "AllWithoutWaiting": core.AllWithoutWaiting[float32], "AllMutable": core.AllMutable[float32], "AllMutableWithoutWaiting": core.AllMutableWithoutWaiting[float32],
		"nil Tensor": (*core.Tensor)(nil), "zero Tensor": new(core.Tensor), "zero Buffer": new(core.Buffer), "nil Buffer": (*core.Buffer)(nil), "zero Registry": new(core.Registry), "nil Registry": (*core.Registry)(nil),
		"Layout": core.Layout{}, "DType": core.DType{}, "DeviceID": core.DeviceID{}, "Memory": core.Memory{}, "Handle": new(core.Handle), "nil Handle": (*core.Handle)(nil),
		"ExternalMemory": core.ExternalMemory{}, "ExternalSemaphore": core.ExternalSemaphore{}, "ExternalEvent": core.ExternalEvent{}, "Properties": core.Properties{},
		"zero Buffer.Release": "there is no reference to release", "Layout.Dim": panics, "Layout.Stride": panics, "nil Tensor.Format": format, "zero Tensor.Format": format,
		"Error": new(core.Error),
	}, sound, buffer, core.TypeFloat32, core.TextOptions{})
}
