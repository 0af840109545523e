package tensorfile

import (
	"context"
	"errors"
	"io"
	"os"
	"slices"
	"time"

	"github.com/dlx-go/dlx/core"
)

// stream reads a message from a reader that others go on to use: never a byte more than it is asked for. It is for one
// goroutine at a time.
type stream struct {
	r      io.Reader
	ctx    context.Context
	direct bool   // r.Read is called as it is: it does not outlast ctx
	bounce []byte // what r.Read fills otherwise
	stop   func() // restores r

	pos     int64 // how many bytes of the message were read
	end     int64 // of the message; 0 until its header was read
	entries []entry
	err     error // that ended reading; io.ErrUnexpectedEOF if r ended
	ended   bool  // r has ended, and did not fail
}

// newStream returns a stream, whose caller calls close. It uses room bytes of memory, or none.
func newStream(ctx context.Context, r io.Reader, room int64) *stream {
	s := &stream{r: r, ctx: ctx, direct: ctx.Done() == nil, stop: func() {}}
	d, ok := r.(interface{ SetReadDeadline(t time.Time) error })
	if _, file := r.(*os.File); ok && !file { // most files have no deadlines
		s.direct, s.stop = true, endByDeadline(ctx, d.SetReadDeadline)
	}
	if !s.direct {
		s.bounce = make([]byte, room)
	}
	return s
}

// endByDeadline has a connection fail when ctx ends. The caller calls stop, which leaves the connection as it was, but
// without a deadline if ctx has ended.
func endByDeadline(ctx context.Context, set func(time.Time) error) (stop func()) {
	if ctx.Done() == nil {
		return func() {}
	}
	done := make(chan struct{})
	undo := context.AfterFunc(ctx, func() {
		_ = set(time.Unix(1, 0)) // long ago; a connection that has no deadlines blocks
		close(done)
	})
	return func() {
		if !undo() {
			<-done
			_ = set(time.Time{})
		}
	}
}

func (s *stream) close() { s.stop() }

// read reads at most len(p) bytes. It returns ctx's error if ctx ends before r has any.
func (s *stream) read(p []byte) (n int, err error) {
	if err := s.ctx.Err(); err != nil {
		return 0, err
	}
	if s.direct {
		n, err = s.r.Read(p)
	} else {
		n, err = s.readAside(p)
	}
	if n < 0 || n > len(p) {
		return 0, errors.New("the reader says that it has read more bytes than it was asked for")
	}
	s.pos += int64(n)
	if err != nil && s.ctx.Err() != nil {
		err = s.ctx.Err()
	}
	return n, err
}

// readAside reads by another goroutine, into memory that nobody else uses: if ctx ends first, r may still write it.
func (s *stream) readAside(p []byte) (int, error) {
	type result struct {
		n   int
		err error
	}
	room := s.bounce[:min(len(p), len(s.bounce))]
	done := make(chan result, 1)
	go func() {
		n, err := s.r.Read(room)
		done <- result{n, err}
	}()
	select {
	case got := <-done:
		if 0 <= got.n && got.n <= len(room) {
			copy(p, room[:got.n])
		}
		return got.n, got.err
	case <-s.ctx.Done():
		return 0, s.ctx.Err()
	}
}

// maxEmpty is how often a reader may return neither bytes nor an error.
const maxEmpty = 100

// fill fills dst with the next bytes. It returns how many it got, and sets s.err if that is not all.
func (s *stream) fill(dst []byte) (n int) {
	empty := 0
	for n < len(dst) && s.err == nil {
		m, err := s.read(dst[n:])
		n += m
		if empty++; m > 0 {
			empty = 0
		}
		switch {
		case n == len(dst): // what err says is for whoever reads on
		case errors.Is(err, io.EOF):
			s.err, s.ended = io.ErrUnexpectedEOF, true
		case err != nil:
			s.err = err
		case empty == maxEmpty:
			s.err = io.ErrNoProgress
		}
	}
	return n
}

// Read fills p.
func (s *stream) Read(p []byte) (int, error) {
	if n := s.fill(p); n < len(p) {
		return n, s.err
	}
	return len(p), nil
}

// take returns the next n bytes, which are what. It allocates memory only as the bytes arrive.
func (s *stream) take(n int, what string) ([]byte, error) {
	var text []byte
	for len(text) < n {
		had := len(text)
		more := min(n-had, max(had, 64<<10))
		text = slices.Grow(text, more)[:had+more]
		if got := s.fill(text[had:]); got < more {
			return nil, s.short("%s has %d bytes, but the message ends after %d of them", what, n, had+got)
		}
	}
	return text, nil
}

// readAt reads the bytes of the message at off, which must not have been read yet. It drops those before.
func (s *stream) readAt(dst []byte, off int64) error {
	if err := s.skip(off); err != nil {
		return err
	}
	if s.fill(dst) < len(dst) {
		return s.cut()
	}
	return nil
}

// skip reads up to a position of the message, and drops the bytes.
func (s *stream) skip(to int64) error {
	if s.pos == to {
		return nil
	}
	room := make([]byte, min(to-s.pos, 64<<10))
	for s.pos < to {
		n := min(to-s.pos, int64(len(room)))
		if s.fill(room[:n]) < int(n) {
			return s.cut()
		}
	}
	return nil
}

// cut returns the error for elements that are not all there.
func (s *stream) cut() error {
	for _, e := range s.entries {
		if s.pos < e.Offset+e.Bytes {
			return s.short("tensor %s has %d bytes, but the message ends after %d of them", quote(e.Name), e.Bytes, s.pos-e.Offset)
		}
	}
	return s.short("the message has %d bytes, but it ends after %d of them", s.end, s.pos)
}

// short returns the error for a message that is not all there.
func (s *stream) short(format string, args ...any) error {
	if s.ctx.Err() != nil && errors.Is(s.err, s.ctx.Err()) {
		return s.err
	}
	return loading.errorf(because(core.ErrInvalid, s.err), format, args...)
}

// contextWriter is a writer that fails when a context ends.
type contextWriter struct {
	ctx context.Context
	w   io.Writer
}

// newContextWriter returns a writer for w that fails when ctx ends. The caller calls stop when nothing is written any more.
func newContextWriter(ctx context.Context, w io.Writer) (_ io.Writer, stop func()) {
	stop = func() {}
	if d, ok := w.(interface{ SetWriteDeadline(t time.Time) error }); ok {
		stop = endByDeadline(ctx, d.SetWriteDeadline)
	}
	return contextWriter{ctx, w}, stop
}

// Write writes p in pieces, so that it does not take long to see that the context has ended.
func (c contextWriter) Write(p []byte) (n int, err error) {
	for piece := range slices.Chunk(p, largestPiece) {
		if err := c.ctx.Err(); err != nil {
			return n, err
		}
		m, err := c.w.Write(piece)
		n += m
		switch {
		case err != nil && c.ctx.Err() != nil:
			return n, c.ctx.Err()
		case err != nil:
			return n, err
		case m < len(piece):
			return n, io.ErrShortWrite
		}
	}
	return n, nil
}
