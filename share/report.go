package share

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/exchange"
	"github.com/dlx-go/dlx/stream"
)

// Report describes how a tensor was passed, in the words of [exchange.Report].
type Report struct {
	From        core.DeviceID      // where the memory lies; of a received tensor, where it was opened
	To          core.DeviceID      // where the memory that was passed lies; of a received tensor, the device of the result
	Mechanism   exchange.Mechanism // Alias or Map if the memory is shared; otherwise how it was copied
	BytesCopied int64              // a byte that was copied twice counts twice
	Handle      core.HandleType    // by which the memory is shared; 0 for a tensor without elements
	Opened      bool               // the memory was passed, or opened, for this tensor; later ones find it open
	Wait        stream.Wait        // how the receiver waits for the elements, or this process has waited for them
	Label       string             // that came with the tensor, or was sent with it
	Duration    time.Duration      // time until the call returned

	steps   []exchange.Step
	refused []exchange.Refusal
	move    *exchange.Report // a copy or a mapping that package exchange made
}

// Steps returns what was done.
func (r Report) Steps() []exchange.Step {
	steps := []exchange.Step{}
	if r.move != nil {
		steps = append(steps, r.move.Steps()...)
	}
	return append(steps, r.steps...)
}

// Refused returns the ways that are better than the one that was taken, with the reason why
// each was not taken.
func (r Report) Refused() []exchange.Refusal {
	refused := r.refused
	if r.move != nil {
		refused = append(refused[:len(refused):len(refused)], r.move.Refused()...)
	}
	return refused
}

// String describes how the tensor was passed in several lines.
func (r Report) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%v -> %v: %v, %d bytes copied\n", r.From, r.To, r.Mechanism, r.BytesCopied)
	for i, s := range r.Steps() {
		fmt.Fprintf(&b, "  %d. %s", i+1, s.What)
		if s.Bytes > 0 {
			fmt.Fprintf(&b, " (%d bytes)", s.Bytes)
		}
		b.WriteByte('\n')
	}
	if r.Wait != stream.NoWait {
		fmt.Fprintf(&b, "  wait: %v\n", r.Wait)
	}
	for _, f := range r.Refused() {
		fmt.Fprintf(&b, "  not %v: %s: %s\n", f.Mechanism, f.What, f.Reason)
	}
	return b.String()
}

// MarshalJSON returns the fields of r, the steps, and the ways that were not taken.
func (r Report) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		From        core.DeviceID      `json:"from"`
		To          core.DeviceID      `json:"to"`
		Mechanism   exchange.Mechanism `json:"mechanism"`
		Steps       []exchange.Step    `json:"steps"`
		Refused     []exchange.Refusal `json:"refused,omitempty"`
		BytesCopied int64              `json:"bytes_copied"`
		Handle      core.HandleType    `json:"handle"`
		Opened      bool               `json:"opened"`
		Wait        stream.Wait        `json:"wait"`
		Label       string             `json:"label,omitempty"`
		Duration    time.Duration      `json:"duration_ns"`
	}{r.From, r.To, r.Mechanism, r.Steps(), r.Refused(), r.BytesCopied, r.Handle, r.Opened, r.Wait, r.Label, r.Duration})
}

// refuse notes a way that was not taken.
func (r *Report) refuse(m exchange.Mechanism, why error, format string, args ...any) {
	r.refused = append(r.refused, exchange.Refusal{Mechanism: m, What: fmt.Sprintf(format, args...), Reason: why.Error()})
}

// did notes a step that copies nothing.
func (r *Report) did(format string, args ...any) {
	r.steps = append(r.steps, exchange.Step{What: fmt.Sprintf(format, args...)})
}
