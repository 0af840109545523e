package core_test

import (
	"context"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/dlx-go/dlx/core"
)

// zeroArgument is what the calls get: nil and zero values, but a context.
func zeroArgument(t reflect.Type) reflect.Value {
	if t == reflect.TypeFor[context.Context]() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel() // what waits, waits for nothing
		return reflect.ValueOf(ctx)
	}
	return reflect.Zero(t)
}

// callWithZeros calls f and reports whether that panicked.
func callWithZeros(t *testing.T, name string, f reflect.Value) {
	t.Helper()
	defer func() {
		if r := recover(); r != nil {
			t.Errorf("%s panics: %v", name, r)
		}
	}()
	var in []reflect.Value
	n := f.Type().NumIn()
	if f.Type().IsVariadic() {
		n--
	}
	for i := range n {
		in = append(in, zeroArgument(f.Type().In(i)))
	}
	f.Call(in)
}

// Nothing panics on input, as the package's documentation promises.
func TestNothingPanicsOnNilAndZeroValues(t *testing.T) {
	// An axis out of range is a programming error, and a buffer that nobody made is not released.
	// Package fmt, which calls Format, has a State.
	allowed := map[string]bool{"core.Layout.Dim": true, "core.Layout.Stride": true, "*core.Tensor.Format": true}
	zeroBuffer := new(core.Buffer)
	for _, v := range []any{
		(*core.Tensor)(nil), new(core.Tensor), (*core.Buffer)(nil), zeroBuffer, core.Memory{}, core.Layout{},
		core.DType{}, core.DeviceID{}, core.DeviceType(0), core.Properties{}, new(core.Properties), core.Capabilities(0),
		core.UUID{}, core.HandleType(0), core.ExternalMemory{}, new(core.Registry), (*core.Registry)(nil), new(core.Error),
	} {
		value := reflect.ValueOf(v)
		for i := range value.NumMethod() {
			name := fmt.Sprintf("%T.%s", v, value.Type().Method(i).Name)
			if !allowed[name] && !(v == any(zeroBuffer) && name == "*core.Buffer.Release") {
				callWithZeros(t, name, value.Method(i))
			}
		}
	}
	if got := fmt.Sprintf("%+v %v", (*core.Tensor)(nil), new(core.Tensor)); strings.Contains(got, "PANIC") {
		t.Error(got)
	}
	for name, f := range map[string]any{
		"As": core.As[core.HostMapper], "Empty": core.Empty, "Wrap": core.Wrap, "NewTensor": core.NewTensor,
		"Values": core.Values[float32], "Mutable": core.Mutable[float32],
		"ValuesWithoutWaiting": core.ValuesWithoutWaiting[float32], "FromSlice": core.FromSlice[float32],
		"Mutable, not waiting": core.MutableWithoutWaiting[float32], "All": core.All[float32], "AllMutable": core.AllMutable[float32],
		"FromSliceStrided": core.FromSliceStrided[float32], "ToSlice": core.ToSlice[float32], "At": core.At[float32],
		"Set": core.Set[float32], "Fill": core.Fill[float32], "Equal": core.Equal, "EqualBits": core.EqualBits, "Convert": core.Convert,
		"NewLayout": core.NewLayout, "ParseDevice": core.ParseDevice, "ParseDeviceType": core.ParseDeviceType,
	} {
		callWithZeros(t, "core."+name, reflect.ValueOf(f))
	}
}
