package exchange

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/stream"
)

// Step is one step of a move.
type Step struct {
	What  string `json:"what"`  // what is done, in words
	Bytes int64  `json:"bytes"` // number of bytes that the step copies
}

// Refusal is a way that was not taken, and the reason.
type Refusal struct {
	Mechanism Mechanism `json:"mechanism"`
	What      string    `json:"what"`   // the way, in words
	Reason    string    `json:"reason"` // why it was not taken
}

// Report describes how a tensor was moved.
type Report struct {
	From        core.DeviceID // where the memory of the source lies
	To          core.DeviceID // the destination
	Mechanism   Mechanism     // 0 if the tensor was not moved
	BytesCopied int64         // a byte that was copied twice counts twice
	Opened      bool          // memory was opened for this move; the next move finds it open
	Wait        stream.Wait   // how Options.Stream, or the caller, waits for the data
	Duration    time.Duration // time until the call returned; a copy may still be running
	Converted   core.DeviceID // what converted the elements, such as cpu:0 for the host; zero without Options.Convert

	account *account
	hosted  bool // Options.Stream runs functions of the host, so that a goroutine waits in its order
}

// waited notes how s waits for the data.
func (r *Report) waited(how stream.Wait, s core.Stream) {
	r.Wait = how
	_, r.hosted = s.(hostWorker)
}

// account is what a move did. It is put into words when someone asks.
type account struct {
	plan    *plan
	taken   way   // without a method if none was
	refused []way // those that rank better

	converted    []Step    // of a move with a conversion, instead of those of taken
	notConverted []Refusal // why devices did not convert
}

// bytes is how many bytes a copy of the tensor has.
func (a *account) bytes() int64 {
	if a.plan == nil {
		return 0
	}
	return a.plan.bytes
}

// steps lists what was done: nothing by a nil account.
func (a *account) steps() []Step {
	switch {
	case a != nil && a.converted != nil:
		return append([]Step{}, a.converted...)
	case a == nil || a.taken.method == nil:
		return []Step{}
	}
	return a.plan.steps(a.taken, a.plan.bytes)
}

// refusals puts the refused ways into words: none of a nil account.
func (a *account) refusals() []Refusal {
	switch {
	case a != nil && a.converted != nil:
		return append([]Refusal(nil), a.notConverted...)
	case a == nil || len(a.refused) == 0:
		return nil
	}
	list := make([]Refusal, len(a.refused))
	for i, w := range a.refused {
		list[i] = a.plan.refusal(w)
	}
	return list
}

// Steps returns the steps of the move.
func (r Report) Steps() []Step { return r.account.steps() }

// Refused returns the ways that are better than the one that was taken, with the reason why
// each was not taken. If no way was taken, it returns all ways.
func (r Report) Refused() []Refusal { return r.account.refusals() }

// String describes the move in several lines: the mechanism, the steps, how the data is
// waited for if it was not ready, and the better ways that were not taken.
func (r Report) String() string {
	return describe(r.From, r.To, r.Mechanism, r.BytesCopied, r.account, r.waiting())
}

// waiting says in words how the data is waited for: "" if it was ready, or nobody waits yet.
func (r Report) waiting() string {
	by := fmt.Sprintf("the stream of %v on the device", r.To)
	switch {
	case r.Wait == stream.NoWait:
		return ""
	case r.Wait == stream.HostWait:
		by = "the caller"
	case r.hosted:
		by = fmt.Sprintf("a goroutine of the stream of %v", r.To)
	}
	return fmt.Sprintf("wait: %v, by %s", r.Wait, by)
}

// MarshalJSON returns the fields of r, the steps, and the ways that were not taken.
func (r Report) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		From        core.DeviceID `json:"from"`
		To          core.DeviceID `json:"to"`
		Mechanism   Mechanism     `json:"mechanism"`
		Steps       []Step        `json:"steps"`
		Refused     []Refusal     `json:"refused,omitempty"`
		BytesCopied int64         `json:"bytes_copied"`
		Opened      bool          `json:"opened"`
		Wait        stream.Wait   `json:"wait"`
		Duration    time.Duration `json:"duration_ns"`
		Converted   core.DeviceID `json:"converted_by,omitzero"`
	}{r.From, r.To, r.Mechanism, r.Steps(), r.Refused(), r.BytesCopied, r.Opened, r.Wait, r.Duration, r.Converted})
}

// describe puts a move, or the plan of one, into words. waiting is how the data is waited for, if it is.
func describe(from, to core.DeviceID, m Mechanism, copied int64, a *account, waiting string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%v -> %v: %v, %d bytes copied\n", from, to, m, copied)
	for i, s := range a.steps() {
		fmt.Fprintf(&b, "  %d. %s", i+1, s.What)
		if s.Bytes > 0 {
			fmt.Fprintf(&b, " (%d bytes)", s.Bytes)
		}
		b.WriteByte('\n')
	}
	if waiting != "" {
		fmt.Fprintf(&b, "  %s\n", waiting)
	}
	for _, f := range a.refusals() {
		fmt.Fprintf(&b, "  not %v: %s: %s\n", f.Mechanism, f.What, f.Reason)
	}
	return b.String()
}

// NoWayError is the error of a move for which no way is possible. It wraps the errors of
// the ways that were tried. If no way was tried, it wraps core.ErrNotSupported.
type NoWayError struct {
	From, To core.DeviceID // where the memory of the source lies, and the destination

	account *account
	tried   []error
}

// noWay is the error of a call whose report says that every way was refused.
func noWay(call string, r Report, tried []error) error {
	return &core.Error{Backend: "exchange", Call: call, Err: &NoWayError{From: r.From, To: r.To, account: r.account, tried: tried}}
}

// Refused returns all ways, with the reason why each was not taken.
func (e *NoWayError) Refused() []Refusal { return e.account.refusals() }

// Error names the source, the destination and all ways, with the reasons.
func (e *NoWayError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "no way from %v to %v", e.From, e.To)
	for _, r := range e.Refused() {
		fmt.Fprintf(&b, "; %v: %s: %s", r.Mechanism, r.What, r.Reason)
	}
	return b.String()
}

// Unwrap returns the errors of the ways that were tried.
func (e *NoWayError) Unwrap() []error {
	if len(e.tried) == 0 {
		return []error{core.ErrNotSupported}
	}
	return e.tried
}
