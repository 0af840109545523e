package benchmarks

import (
	"time"

	"github.com/dlx-go/dlx/benchmarks/internal/foreign"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/dlpack"
)

const emptyCall = "empty call"

// exportBatch is how many structs are out at a time where exporting alone is timed:
// so few that they stay in the first-level cache, as in a program that hands
// tensors to a consumer who uses them up.
const exportBatch = 128

// dlpackCases measure DLPack in and out of C, on a float32 tensor of 2x3x4.
func dlpackCases() []Case {
	return []Case{{
		Name:        "call/empty",
		Description: "a call of a C function that does nothing",
		setup: foreignCase(func(e *env) (trial, error) {
			return trial{own: callNothing}, nil
		}),
	}, {
		Name:        "dlpack/export",
		Description: "export alone, while structs are free; C deletes them off the clock",
		Target:      Target{Measure: Time, Limit: 10, NoAllocs: true},
		setup:       exportCase(func(t *core.Tensor) sampler { return exportOnly(t, dlpack.Flush) }),
	}, {
		Name:        "dlpack/export-reuse",
		Description: "the same with what it takes to get back the structs that C has deleted",
		setup:       exportCase(func(t *core.Tensor) sampler { return exportOnly(t, func() {}) }),
	}, {
		Name:        "dlpack/export-delete",
		Description: "export, a C consumer that reads the shape, its call of the deleter",
		Target:      Target{Measure: Extra, Limit: 30, Baseline: emptyCall, NoAllocs: true},
		setup: exportCase(func(t *core.Tensor) sampler {
			return timed(func(n int) error {
				for range n {
					m, err := dlpack.Export(t)
					if err != nil {
						return err
					}
					foreign.Consume(m)
				}
				return nil
			})
		}),
	}, {
		Name:        "dlpack/import-delete",
		Description: "import of a C producer's tensor, close, the call of its C deleter",
		Target:      Target{Measure: Extra, Limit: 40, Baseline: emptyCall},
		setup: foreignCase(func(e *env) (trial, error) {
			m := foreign.Produce()
			return besideEmptyCall(timed(func(n int) error {
				for range n {
					t, err := dlpack.Import(m, dlpack.ImportOptions{})
					if err != nil {
						return err
					}
					if err := t.Close(); err != nil {
						return err
					}
				}
				return nil
			})), nil
		}),
	}, {
		Name:        "dlpack/read-delete",
		Description: "a description of a C producer's tensor, its call of the deleter",
		Target:      Target{Measure: Extra, Limit: 40, Baseline: emptyCall, NoAllocs: true},
		setup: foreignCase(func(e *env) (trial, error) {
			m := foreign.Produce()
			var d dlpack.Description
			return besideEmptyCall(timed(func(n int) error {
				for range n {
					if err := d.Read(m, dlpack.ImportOptions{}); err != nil {
						return err
					}
					dlpack.Delete(m)
				}
				return nil
			})), nil
		}),
	}, {
		Name:        "dlpack/round-trip",
		Description: "export, import, close",
		setup: foreignCase(func(e *env) (trial, error) {
			t, err := e.exported()
			if err != nil {
				return trial{}, err
			}
			return trial{
				own: repeat(func() error {
					m, err := dlpack.Export(t)
					if err != nil {
						return err
					}
					back, err := dlpack.Import(m, dlpack.ImportOptions{})
					if err != nil {
						return err
					}
					return back.Close()
				}),
				baselines: []baseline{e.numpyBaseline("np.from_dlpack(np)", request{Prepare: "from_dlpack", DType: t.DType(), Shape: t.Shape()})},
			}, nil
		}),
	}, {
		Name:        "dlpack/round-trip-legacy",
		Description: "export, import, close with the struct of DLPack 0.x",
		setup: exportCase(func(t *core.Tensor) sampler {
			return repeat(func() error {
				m, err := dlpack.ExportLegacy(t)
				if err != nil {
					return err
				}
				back, err := dlpack.ImportLegacy(m, dlpack.ImportOptions{})
				if err != nil {
					return err
				}
				return back.Close()
			})
		}),
	}}
}

// callNothing is the baseline: what it costs to enter and leave C.
var callNothing = timed(func(n int) error {
	for range n {
		foreign.EmptyCall()
	}
	return nil
})

func besideEmptyCall(own sampler) trial {
	return trial{own: own, baselines: []baseline{{name: emptyCall, sample: callNothing}}}
}

// foreignCase is a setup that needs C.
func foreignCase(setup func(*env) (trial, error)) func(*env) (trial, error) {
	return func(e *env) (trial, error) {
		if err := foreign.Available(); err != nil {
			return trial{}, err
		}
		return setup(e)
	}
}

// exportCase is the setup of a case that exports one tensor, beside an empty call.
func exportCase(own func(*core.Tensor) sampler) func(*env) (trial, error) {
	return foreignCase(func(e *env) (trial, error) {
		t, err := e.exported()
		return besideEmptyCall(own(t)), err
	})
}

// exported is the tensor that the cases export.
func (e *env) exported() (*core.Tensor, error) {
	e.cleanup(dlpack.Flush) // after the tensor is closed: nothing is on its way back then
	return e.keep(core.FromSlice(make([]float32, 24), 2, 3, 4))
}

// exportOnly keeps the deletion out of the time, and settle, which follows it. One reading of the clock a batch stays in
// it: subtracting one that was disturbed could leave less than no time.
func exportOnly(t *core.Tensor, settle func()) sampler {
	return func(n int) (spent time.Duration, err error) {
		var out [exportBatch]*dlpack.ManagedTensorVersioned
		for done := 0; done < n && err == nil; {
			k, want := 0, min(exportBatch, n-done)
			start := time.Now()
			for k < want {
				if out[k], err = dlpack.Export(t); err != nil {
					break
				}
				k++
			}
			spent += time.Since(start)
			foreign.DeleteAll(out[:k])
			settle()
			done += k
		}
		return spent, err
	}
}
