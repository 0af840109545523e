package doctor

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/share"
)

// tryDevices tries each handle of each device with the devices of the other process that may
// open it.
func (s *session) tryDevices(ctx context.Context) {
	for _, d := range s.options.Devices {
		mine := describe(d)
		for _, t := range mine.Exports {
			for _, p := range s.partners(&mine, t, func(x *share.PeerDevice) []core.HandleType { return x.Imports }) {
				f := s.finding(wayOf("memory", mine.ID, t), &mine, p)
				f.ZeroCopy, f.Host = true, mine.ID == core.CPU && p.id == core.CPU
				s.tryWith(ctx, f, p, &mine, func() error { return s.passMemory(ctx, d, t, p.id) })
			}
		}
		for _, t := range mine.SemaphoreExports {
			for _, p := range s.partners(&mine, t, func(x *share.PeerDevice) []core.HandleType { return x.SemaphoreImports }) {
				s.tryWith(ctx, s.finding("semaphore as "+t.String(), &mine, p), p, &mine, func() error { return s.passSemaphore(ctx, d, t, p.id) })
			}
		}
		if mine.IPCEvents {
			events := func(x *share.PeerDevice) []core.HandleType {
				if x.IPCEvents {
					return []core.HandleType{core.HandleIPC}
				}
				return nil
			}
			for _, p := range s.partners(&mine, core.HandleIPC, events) {
				s.tryWith(ctx, s.finding("event as ipc", &mine, p), p, &mine, func() error { return s.passEvent(ctx, d, p.id) })
			}
		}
	}
}

// wayOf names a way to pass memory, with what the driver calls it.
func wayOf(what string, id core.DeviceID, t core.HandleType) string {
	way := what + " as " + t.String()
	if vmm := id.Type == core.DeviceCUDA || id.Type == core.DeviceROCM; vmm && t == core.HandleOpaqueFD {
		way += " (virtual memory management)"
	}
	return way
}

// partner is a device of the other process that may open something; none is why there is none.
type partner struct {
	id   core.DeviceID
	as   core.HandleType
	none *cause
	note string // what may go wrong although it works here
}

// partners returns the devices of the other process that may open what a device passes as t: all
// that say so and have its UUID. Without such a one, it returns the device with the same name, so
// that its driver says why it does not.
func (s *session) partners(mine *share.PeerDevice, t core.HandleType, opens func(*share.PeerDevice) []core.HandleType) []partner {
	var found, others []partner
	var reasons cause
	var none core.UUID
	for i := range s.devices {
		x := &s.devices[i]
		if !slices.Contains(opens(x), t) {
			continue
		}
		if t == core.HandleMemFD || x.UUID == mine.UUID && x.UUID != none {
			found = append(found, partner{id: x.ID, as: t, note: s.note(mine, t)})
		} else if x.ID.Type == mine.ID.Type {
			others = append(others, partner{id: x.ID, as: t})
		}
	}
	if len(found) > 0 {
		return found
	}
	if i := slices.IndexFunc(others, func(p partner) bool { return p.id == mine.ID }); i >= 0 {
		return others[i : i+1]
	}
	switch {
	case len(others) > 0:
		return others[:1]
	case len(s.devices) == 0:
		reasons = sure("look at dlx devices there, and pass the devices to the container", "the other process has no devices")
	default:
		reasons = sure("look at dlx devices there, and pass the same devices to both containers", "no device of the other process opens handles of type %v of %v", t, mine.ID)
	}
	return []partner{{none: &reasons}}
}

// note says what may go wrong with handles of a type although one works.
func (s *session) note(mine *share.PeerDevice, t core.HandleType) string {
	if t == core.HandleIPC && mine.ID.Type == core.DeviceROCM && apart(&s.mine, &s.theirs, "pid") {
		return "it works with this one handle; HIP names handles by the number of the process, and processes in different PID namespaces may have the same number"
	}
	return ""
}

func (s *session) finding(way string, mine *share.PeerDevice, p partner) Finding {
	f := Finding{Way: way, From: mine.ID.String()}
	if p.none == nil {
		f.To = p.id.String()
	}
	return f
}

// tryWith tries a way with a device of the other process.
func (s *session) tryWith(ctx context.Context, f Finding, p partner, mine *share.PeerDevice, way func() error) {
	if p.none != nil {
		f.Verdict, f.Why, f.Remedy, f.Probably = Fails, p.none.why, p.none.remedy, p.none.probably
		s.found = append(s.found, f)
		return
	}
	s.try(ctx, f, way, func(x *failure) cause { return s.whyDevice(x, mine, p) })
	if last := len(s.found) - 1; last >= 0 && s.found[last].Verdict == Works && p.note != "" {
		s.found[last].Why, s.found[last].Probably = p.note, true
	}
}

// whyDevice explains that a device does not open what another one passes.
func (s *session) whyDevice(x *failure, mine *share.PeerDevice, p partner) cause {
	id := p.id
	i := slices.IndexFunc(s.devices, func(d share.PeerDevice) bool { return d.ID == id })
	if i < 0 {
		return cause{}
	}
	theirs := &s.devices[i]
	var none core.UUID
	switch {
	case p.as == core.HandleMemFD: // any device may open memory of the host
	case theirs.UUID != mine.UUID:
		c := sure("make the same devices visible in both, for example by CUDA_VISIBLE_DEVICES or the devices of the containers",
			"%v of the other process is another device: its UUID is %v, and that of %v here is %v", id, theirs.UUID, mine.ID, mine.UUID)
		c.why += ": " + x.Text
		return c
	case theirs.DriverUUID != mine.DriverUUID && theirs.DriverUUID != none && mine.DriverUUID != none:
		c := sure("use one version of the driver in both containers", "the drivers differ: the driver UUID of %v there is %v, and that of %v here is %v", id, theirs.DriverUUID, mine.ID, mine.DriverUUID)
		c.why += ": " + x.Text
		return c
	}
	if kinds := apartKinds(&s.mine, &s.theirs); kinds != "" {
		return probable("share these namespaces, or pass descriptors instead", "%s; the processes are in different namespaces (%s), which a driver may not support", x.Text, kinds)
	}
	return cause{}
}

// apartKinds are the namespaces that differ of those that drivers look at.
func apartKinds(a, b *Facts) string {
	text := ""
	for _, kind := range []string{"pid", "ipc", "user"} {
		if apart(a, b, kind) {
			if text != "" {
				text += ", "
			}
			text += kind
		}
	}
	return text
}

// sending returns the descriptor of a message, -1 if it has none.
func sending(fds []int) int {
	if len(fds) == 0 {
		return -1
	}
	return fds[0]
}

// passMemory passes memory of a device to one of the other process, and compares what comes back.
func (s *session) passMemory(ctx context.Context, d core.Device, t core.HandleType, to core.DeviceID) (err error) {
	whole := ctx // ask has a limit of its own
	ctx, cancel := context.WithTimeout(ctx, s.options.timeout())
	defer cancel()
	e, ok := core.As[core.MemoryExporter](d)
	if !ok {
		return core.Errorf(core.ErrNotSupported, "doctor", "export", "%v exports no memory", d.ID())
	}
	x, err := core.Empty(ctx, d, core.TypeUint8, []int64{size}, core.AllocOptions{Export: t})
	if err != nil {
		return err
	}
	defer x.Close()
	n := seed()
	if err := fill(ctx, d, x, pattern(n)); err != nil {
		return err
	}
	if err := x.WaitReady(ctx); err != nil {
		return err
	}
	b, err := x.Buffer()
	if err != nil {
		return err
	}
	m, err := e.ExportMemory(b, t)
	if err != nil {
		return err
	}
	defer m.Close()
	data, fds, err := m.MarshalWithFDs()
	if err != nil {
		return err
	}
	_, err = s.ask(whole, message{Do: "import", Device: to.String(), Seed: n, Data: data}, sending(fds))
	if !errors.As(err, new(*lostError)) { // the other process has closed it; otherwise it is not known
		_ = m.Close()
		if ended := e.EndExport(b); err == nil {
			err = ended
		}
	}
	if err != nil {
		return err
	}
	if err := compare(ctx, d, x, reply(n)); err != nil {
		return fmt.Errorf("the other process has changed the memory, and the change does not show: %w", err)
	}
	return nil
}

// passSemaphore passes a semaphore, and waits until the other process has signaled it.
func (s *session) passSemaphore(ctx context.Context, d core.Device, t core.HandleType, to core.DeviceID) (err error) {
	whole := ctx // ask has a limit of its own
	ctx, cancel := context.WithTimeout(ctx, s.options.timeout())
	defer cancel()
	c, ok := core.As[core.SemaphoreCreator](d)
	e, exports := core.As[core.SemaphoreExporter](d)
	if !ok || !exports {
		return core.Errorf(core.ErrNotSupported, "doctor", "export", "%v exports no semaphores", d.ID())
	}
	semaphore, err := c.NewSemaphore(ctx, t)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, semaphore.Close()) }()
	x, err := e.ExportSemaphore(semaphore, t)
	if err != nil {
		return err
	}
	defer x.Close()
	data, fds, err := x.MarshalWithFDs()
	if err != nil {
		return err
	}
	if _, err := s.ask(whole, message{Do: "signal", Device: to.String(), Data: data}, sending(fds)); err != nil {
		return err
	}
	binary, ok := semaphore.(core.BinarySemaphore)
	if !ok {
		return semaphore.Wait(ctx, 1)
	}
	return waitBinary(ctx, d, binary)
}

// waitBinary waits for a binary semaphore that was signaled, on a stream.
func waitBinary(ctx context.Context, d core.Device, semaphore core.BinarySemaphore) (err error) {
	stream, err := d.NewStream(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stream.Close()) }()
	if err := semaphore.WaitOn(stream, 1); err != nil {
		return err
	}
	if err := stream.Synchronize(ctx); err != nil {
		return errors.Join(err, semaphore.Release(context.WithoutCancel(ctx), 1)) // so that the stream can be closed
	}
	return nil
}

// passEvent records an event, and passes it to the other process, which waits for it.
func (s *session) passEvent(ctx context.Context, d core.Device, to core.DeviceID) (err error) {
	whole := ctx // ask has a limit of its own
	ctx, cancel := context.WithTimeout(ctx, s.options.timeout())
	defer cancel()
	c, ok := core.As[core.IPCEventCreator](d)
	if !ok {
		return core.Errorf(core.ErrNotSupported, "doctor", "export", "%v has no events for other processes", d.ID())
	}
	event, err := c.NewIPCEvent(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, event.Close()) }()
	stream, err := d.NewStream(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stream.Close()) }()
	if err := event.Record(stream); err != nil {
		return err
	}
	x, err := event.Export()
	if err != nil {
		return err
	}
	defer x.Close()
	data, fds, err := x.MarshalWithFDs()
	if err != nil {
		return err
	}
	_, err = s.ask(whole, message{Do: "event", Device: to.String(), Data: data}, sending(fds))
	return err
}
