package main

import (
	"fmt"
	"io"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/internal/inventory"
	"github.com/dlx-go/dlx/remote"
)

// devicesResult is the result of `dlx devices`.
type devicesResult struct {
	Backends []inventory.Backend `json:"backends"`
	Remote   remoteState         `json:"remote"`                 // UCX, for tensors between machines
	Unknown  []string            `json:"unknown_tags,omitempty"` // unknown build tags, which may be misspelled
	Hints    []inventory.Hint    `json:"hints,omitempty"`        // usual mistakes of containers and permissions
}

// remoteState says whether package remote can be used.
type remoteState struct {
	Available bool   `json:"available"`
	Version   string `json:"version,omitempty"` // of UCX
	Reason    string `json:"reason,omitempty"`
}

func newRemoteState() remoteState {
	if err := remote.Available(); err != nil {
		return remoteState{Reason: err.Error()}
	}
	return remoteState{Available: true, Version: remote.Version()}
}

func newDevicesCommand(a *app) *cobra.Command {
	html := ""
	cmd := &cobra.Command{
		Use:   "devices",
		Short: "List the backends and the devices of this machine",
		Long: `List the backends and their devices on this machine. If a driver, a device or a feature
is missing, the reason is shown. Features below a backend apply to all its devices;
below a device are those that differ. If several APIs offer the same hardware, each
device lists the others as "same hardware"; they have the same UUID or PCI address.
Compute units, queues, free memory, the link to the host and NUMA nodes are shown if the
API or the system reports them. Backends that are not in this build are listed with the
build tag that adds them. UCX passes tensors between machines, by package remote. Hints name usual mistakes of containers and of permissions, with
a remedy.`,
		Args: cobra.NoArgs,
		RunE: a.runE(func(cmd *cobra.Command, _ []string) (result, error) {
			if err := a.checkFile("html", html); err != nil {
				return nil, err
			}
			r := devicesResult{Backends: inventory.List(cmd.Context(), a.registry)}
			r.Hints = inventory.Hints(r.Backends)
			r.Remote = newRemoteState()
			info, _ := debug.ReadBuildInfo() // nil where a build has none
			r.Unknown = newVersionResult(info, a.registry).Unknown
			if html != "" {
				return r, a.writeDevicesHTML(cmd.Context(), html, r)
			}
			return r, nil
		}),
	}
	addHTML(cmd, &html, "devices")
	return cmd
}

func (r devicesResult) writeText(w io.Writer) {
	for i, b := range r.Backends {
		if i > 0 {
			row(w)
		}
		state := b.Reason
		if b.BuiltIn {
			state = availability(b.Available, b.Version, b.Reason)
		}
		row(w, "BACKEND "+b.Name, printable(state))
		field(w, "error", b.Error)
		writeFeatures(w, b.Features)
		for _, d := range b.Devices {
			row(w)
			row(w, "  DEVICE "+d.ID.String(), orDash(d.Name))
			field(w, "driver", d.Driver)
			field(w, "uuid", identifier(d.UUID))
			field(w, "driver uuid", identifier(d.DriverUUID))
			field(w, "pci", d.PCI)
			field(w, "same hardware", deviceList(d.SameHardware))
			field(w, "link", d.Link)
			field(w, "numa nodes", d.NUMANodes)
			field(w, "compute units", count(d.ComputeUnits))
			field(w, "queues", count(d.Queues))
			field(w, "memory", memorySize(d.TotalMemory))
			field(w, "free memory", memorySize(d.FreeMemory))
			field(w, "alignment", fmt.Sprintf("%d B", d.Alignment))
			field(w, "capabilities", strings.Join(d.Capabilities, ", "))
			writeFeatures(w, slices.DeleteFunc(slices.Clone(d.Features), func(f core.Feature) bool {
				return slices.Contains(b.Features, f) // already shown for the backend
			}))
		}
	}
	row(w)
	row(w, "UCX", printable(availability(r.Remote.Available, r.Remote.Version, r.Remote.Reason)))
	for _, hint := range r.Hints {
		row(w)
		row(w, "HINT "+hint.Name, printable(hint.Problem))
		field(w, "remedy", hint.Remedy)
	}
	if len(r.Unknown) > 0 {
		row(w)
		writeUnknownTags(w, r.Unknown)
	}
}

// writeFeatures writes whether each feature is available, with the reason if not.
func writeFeatures(w io.Writer, features []core.Feature) {
	for _, f := range features {
		field(w, f.Name, availability(f.Available, "", f.Reason))
	}
}

// field writes one property, if it is known.
func field(w io.Writer, name, value string) {
	if value != "" {
		row(w, "    "+printable(name), printable(value))
	}
}

func availability(available bool, version, reason string) string {
	if available {
		return strings.TrimSpace("available " + version)
	}
	return "not available: " + reason
}

// deviceList returns the IDs, separated by commas.
func deviceList(ids []core.DeviceID) string {
	var names []string
	for _, id := range ids {
		names = append(names, id.String())
	}
	return strings.Join(names, ", ")
}

// identifier returns the text of u, "" for the zero UUID.
func identifier(u core.UUID) string {
	if u == (core.UUID{}) {
		return ""
	}
	return u.String()
}

// count formats a number, "" if it is not known.
func count(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n)
}

// memorySize formats a number of bytes, "" if it is not known.
func memorySize(n int64) string {
	if n == 0 {
		return ""
	}
	return formatBytes(n)
}
