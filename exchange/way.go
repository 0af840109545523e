package exchange

import (
	"context"
	"fmt"
	"strings"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/internal/buildtag"
	"github.com/dlx-go/dlx/internal/staging"
)

// method is a method of moving a tensor. Exactly one of its functions is set, none for a
// method that is listed only to say why it is refused.
//
// Its texts, and those of reasons, are filled in when someone asks for them: {from} and
// {to} are the devices, {memory} is where the source's memory lies, {as handle} names the type
// of handles, if there is one. See names.fill.
type method struct {
	mechanism Mechanism
	what      string
	steps     []step // nil if what is the only one
	toFrom    bool   // the destination exports and the source's device imports, not the other way round

	// tensor makes the result without opening or copying anything.
	tensor func(r *run) (*core.Tensor, error)
	// open opens the source's memory on the destination.
	open func(ctx context.Context, r *run, h core.HandleType) (core.Memory, error)
	// fill copies into fresh memory of the destination.
	fill func(ctx context.Context, r *run, c *copying) error
}

// step is the text of one step.
type step struct {
	what   string
	copies bool // each byte of the tensor
}

// The methods. Which of them a plan lists, and in which order, is decided in plan.go.
var (
	noElements = method{mechanism: Alias, what: "no elements: a tensor without memory", tensor: (*run).empty}
	useAsItIs  = method{mechanism: Alias, what: "use the memory as it is: it belongs to the device already", tensor: (*run).alias}
	useNotOwn  = method{mechanism: Alias, what: "use the memory as it is"}

	importPointer = method{mechanism: Alias, what: "{to} imports the memory by its address", open: openPointer}
	mapHostMemory = method{mechanism: Map, what: "map the host memory into {to}", open: openMapped}
	shareNotOwned = method{mechanism: Map, what: "share the memory"}
	viewOnHost    = method{mechanism: Map, what: "the host uses memory of {from} in place", open: openView}
	exportImport  = method{mechanism: Map, what: "export memory of {from}{as handle}, import it into {to}", open: openExported, steps: []step{
		{what: "export memory of {from}{as handle}"},
		{what: "import it into {to}"},
	}}
	mapView = method{mechanism: Map, what: "the host views memory of {from}, and that view is mapped into {to}", open: openMappedView, steps: []step{
		{what: "view memory of {from} from the host"},
		{what: "map the view into {to}"},
	}}

	copyNotOwned   = method{mechanism: Direct, what: "copy"}
	peerCopy       = method{mechanism: Peer, what: "{to} copies from its peer {from}", fill: copyPeer}
	copyIn         = method{mechanism: Direct, what: "{to} copies from {memory}", fill: copyByDestination}
	copyOut        = method{mechanism: Direct, what: "{from} copies to the host", fill: copyBySource}
	copyFromView   = method{mechanism: Direct, what: "the host views memory of {from}, {to} copies from there", fill: copyFromHost}
	copyIntoView   = method{mechanism: Direct, what: "the host views memory of {to}, {from} copies into it", fill: copyToHost}
	copyIntoImport = method{mechanism: Direct, what: "allocate memory of {to} for export{as handle}, {from} imports it and copies into it", fill: copyToImport, toFrom: true, steps: []step{
		{what: "allocate memory of {to} for export{as handle}"},
		{what: "import it into {from}"},
		{what: "{from} copies into it", copies: true},
	}}
	staged = method{mechanism: Staged, what: "copy through host memory in pieces of {piece}", fill: copyInPieces, steps: []step{
		{what: "{from} copies to the host, piece by piece", copies: true},
		{what: "{to} copies from the host, while the next piece arrives", copies: true},
	}}
)

// copyShared is the step of a way that copies from memory which it shares first.
var copyShared = step{what: "{to} copies from there", copies: true}

// way is a way to move the tensor of a plan.
type way struct {
	*method
	handle core.HandleType // for methods that export and import
	copies bool            // the memory is only shared to be copied from there, by the destination
	reason reason          // why the way is refused, nil if it may be tried
}

// copyOf returns the way that shares memory as w does and then copies from there.
func (w way) copyOf() way {
	w.copies = true
	return w
}

// is reports whether v and w are the same way, whatever the reasons against them.
func (w way) is(v way) bool {
	return w.method == v.method && w.handle == v.handle && w.copies == v.copies
}

// cost is the mechanism that the whole way amounts to.
func (w way) cost() Mechanism {
	if w.copies {
		return Direct
	}
	return w.mechanism
}

// reason is why a way is refused. It is put into words when someone asks.
type reason interface {
	text(n *names, w way) string
}

// because is a reason that needs no more than the names.
type because string

func (b because) text(n *names, w way) string { return n.fill(w, string(b)) }

// unowned is a reason because of which the program needs the backend of the memory. The text says how that gets into a
// program, which may lack it.
type unowned string

func (u unowned) text(n *names, w way) string {
	text := n.fill(w, string(u))
	if how := buildtag.How(n.memory.Type.BackendName()); how != "" {
		text += "; if the program lacks the backend " + n.memory.Type.BackendName() + ", " + how
	}
	return text
}

// failure is the reason that a device has refused, or that a way was tried and failed.
type failure struct{ error }

func (f failure) text(*names, way) string { return f.Error() }

// The reasons that a plan knows, beside otherDriver and otherTypes.
var (
	notOwned       reason = unowned("no opened device owns the memory: import it through a device of {memory} first")
	unknownKind    reason = unowned("no opened device owns the memory: import it through a device of {memory} first, or, if it is memory of the host, CUDA or ROCm by another name, as that, by OnDevice of dlpack.ImportOptions")
	otherMemory    reason = because("it is memory of {memory}")
	otherType      reason = because("it is memory of {memory}, and memory of type {wanted} is wanted: Options.Alloc.Type says which")
	unknownStart   reason = because("the source's memory has no known size, and elements lie before its start")
	cannotView     reason = because("the host cannot use memory of {from} in place")
	cannotViewTo   reason = because("the host cannot use memory of {to} in place")
	cannotMap      reason = because("{to} cannot map host memory")
	cannotImportBy reason = because("{to} cannot import memory by its address")
	cannotExport   reason = because("{exporter} cannot export memory")
	cannotImport   reason = because("{importer} cannot import memory")
	noPeers        reason = because("{to} has no peer copies")
	otherBackend   reason = because("they are of different backends")
	onlyAnother    reason = because("Options.Only asks for {only}")
	neverCopies    reason = because("it copies, and Options.Copy is never")
	exportAnother  reason = because("Options.Alloc asks for export as {export}")
)

// names are what the texts of a plan name. They hold no device and no tensor: a report
// keeps neither alive.
type names struct {
	from, to, memory core.DeviceID
	wanted           core.DeviceType
	only             Mechanism
	export           core.HandleType
}

// fill completes a text of w.
func (n *names) fill(w way, text string) string {
	as := ""
	if w.handle != 0 {
		as = " as " + w.handle.String()
	}
	exporter, importer := n.from, n.to
	if w.toFrom {
		exporter, importer = importer, exporter
	}
	return strings.NewReplacer(
		"{from}", n.from.String(), "{to}", n.to.String(), "{memory}", n.memory.String(),
		"{as handle}", as, "{exporter}", exporter.String(), "{importer}", importer.String(),
		"{wanted}", n.wanted.String(), "{only}", n.only.String(),
		"{piece}", fmt.Sprintf("%d KiB", staging.PieceBytes>>10), "{export}", n.export.String(),
	).Replace(text)
}

// what says in words what a way does.
func (n *names) what(w way) string {
	text := w.what
	if w.copies {
		text += ", " + copyShared.what
	}
	return n.fill(w, text)
}

// steps lists what a way does, for a tensor of so many bytes.
func (n *names) steps(w way, bytes int64) []Step {
	texts := w.steps
	if texts == nil {
		texts = []step{{w.what, w.mechanism.Copies() > 0}}
	}
	if w.copies {
		texts = append(texts[:len(texts):len(texts)], copyShared)
	}
	steps := make([]Step, len(texts))
	for i, s := range texts {
		steps[i].What = n.fill(w, s.what)
		if s.copies {
			steps[i].Bytes = bytes
		}
	}
	return steps
}

// refusal says in words why a way was refused.
func (n *names) refusal(w way) Refusal {
	return Refusal{Mechanism: w.cost(), What: n.what(w), Reason: w.reason.text(n, w)}
}
