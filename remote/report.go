package remote

import (
	"fmt"
	"strings"
	"time"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/exchange"
	"github.com/dlx-go/dlx/stream"
)

// Report describes how a tensor was moved, in the words of [exchange.Report].
type Report struct {
	Device      core.DeviceID      `json:"device"`           // of this side
	Mechanism   exchange.Mechanism `json:"mechanism"`        // Direct if UCX reads or writes the memory of the tensor; Staged if it goes through memory of the host
	Reason      string             `json:"reason,omitempty"` // why it was staged, or gathered before
	Bytes       int64              `json:"bytes"`            // of the elements
	BytesCopied int64              `json:"bytes_copied"`     // by this side, beside what UCX does
	Wait        stream.Wait        `json:"wait"`             // how Send has waited for the elements
	Transports  []string           `json:"transports"`       // that UCX has chosen for the peer
	Label       string             `json:"label,omitempty"`  // that came with the tensor, or was sent with it
	Duration    time.Duration      `json:"duration_ns"`      // time until the call returned
}

// String describes how the tensor was moved in one or two lines.
func (r Report) String() string {
	text := fmt.Sprintf("%v: %v by %s, %d bytes, %d bytes copied", r.Device, r.Mechanism, strings.Join(r.Transports, " and "), r.Bytes, r.BytesCopied)
	if r.Wait != stream.NoWait {
		text += fmt.Sprintf(", wait: %v", r.Wait)
	}
	if r.Reason != "" {
		text += "\n  " + r.Reason
	}
	return text
}

// because adds a reason.
func (r *Report) because(format string, args ...any) {
	if r.Reason != "" {
		r.Reason += "; "
	}
	r.Reason += fmt.Sprintf(format, args...)
}

// finishReport completes a report.
func (c *Conn) finishReport(r *Report, start time.Time) {
	r.Duration = time.Since(start)
	r.Transports = c.usedTransports()
	if r.Transports == nil && r.Bytes > 0 {
		r.Transports = c.noteTransports()
	}
}

// noteTransports asks UCX which transports it has chosen, and notes them. It takes some microseconds, so it is asked once.
func (c *Conn) noteTransports() []string {
	names := c.worker.Transports()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.transports = names
	return names
}
