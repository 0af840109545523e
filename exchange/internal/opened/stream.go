package opened

import (
	"context"

	"github.com/dlx-go/dlx/core"
)

// maxStreams is how many streams of a device are opened for copies before copies
// wait for each other on one stream.
const maxStreams = 8

// copyStream is a stream that copies run on.
type copyStream struct {
	core.Stream
	last core.Event // its latest work
	of   *device    // that counts it; nil if the device was closed meanwhile
}

// done reports whether the stream has nothing to do.
func (s copyStream) done() bool {
	if s.last == nil {
		return true
	}
	done, _ := s.last.Done()
	return done
}

// Stream returns a stream of d for copies. The caller gives it back by calling
// giveBack, once, when it has enqueued its work; for a device that does not report
// when it closes, giveBack waits for the work and returns its error.
func (c *Cache) Stream(ctx context.Context, d core.Device) (s core.Stream, giveBack func() error, err error) {
	if !c.watch(d) {
		s, err := d.NewStream(ctx)
		if err != nil {
			return nil, nil, err
		}
		return s, s.Close, nil
	}
	taken, err := c.takeStream(ctx, d)
	if err != nil {
		return nil, nil, err
	}
	return taken.Stream, func() error { return c.giveStream(d, taken) }, nil
}

// takeStream returns a stream without work: the one used longest ago, if its work is
// done, or a new one. Beyond maxStreams it may have work.
func (c *Cache) takeStream(ctx context.Context, d core.Device) (copyStream, error) {
	var s copyStream
	c.mu.Lock()
	kept := c.devices[d]
	full := kept != nil && kept.streams >= maxStreams
	if kept != nil && len(kept.idle) > 0 {
		s, kept.idle = kept.idle[0], kept.idle[1:]
	}
	c.mu.Unlock()
	if s.Stream != nil {
		if full || s.done() {
			return s, nil
		}
		c.keepStream(d, s)
	}

	c.mu.Lock()
	if kept = c.devices[d]; kept != nil {
		kept.streams++
	}
	c.mu.Unlock()
	fresh, err := d.NewStream(ctx)
	s = copyStream{Stream: fresh, of: kept}
	if err != nil {
		c.dropStream(s)
	}
	return s, err
}

// giveStream takes a stream back.
func (c *Cache) giveStream(d core.Device, s copyStream) error {
	e, err := s.Record()
	if err != nil { // the stream cannot be used any more
		c.dropStream(s)
		return s.Close()
	}
	s.last = e
	c.keepStream(d, s)
	return nil
}

// keepStream makes a stream idle, or closes it if the device was closed meanwhile.
func (c *Cache) keepStream(d core.Device, s copyStream) {
	c.mu.Lock()
	keep := s.of != nil && c.devices[d] == s.of
	if keep {
		s.of.idle = append(s.of.idle, s) // at the end: the first was used longest ago
	}
	c.mu.Unlock()
	if !keep {
		_ = s.Close()
	}
}

// dropStream counts a stream no more.
func (c *Cache) dropStream(s copyStream) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s.of != nil {
		s.of.streams--
	}
}
