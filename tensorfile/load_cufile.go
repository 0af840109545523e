package tensorfile

import (
	"cmp"
	"context"
	"errors"
	"io"

	"github.com/dlx-go/dlx/core"
)

// openByDevice opens the file for reads by the device: past the page cache if that is possible. It says why the device
// cannot read it.
func (l *loader) openByDevice(ctx context.Context, s *shard) error {
	reader, ok := core.As[core.FileReader](l.device)
	if !ok {
		return loading.errorf(core.ErrNotSupported, "%v cannot read files into its memory: read by auto, map or direct", l.device.ID())
	}
	if s.direct == nil {
		_ = s.openDirect() // else the library has to do with the page cache, or refuses
	}
	f, err := reader.OpenFile(ctx, cmp.Or(s.direct, s.fd))
	if err != nil {
		return loading.errorf(err, "%v cannot read %s into its memory: read by auto, map or direct", l.device.ID(), s.path)
	}
	s.byDevice = f
	return nil
}

// needsHost returns why the host has to see all bytes of a file, "" if it has not.
func (l *loader) needsHost(s *shard) string {
	switch {
	case l.options.Checksum != NoChecksum:
		return "the host computes checksums, so the device cannot read the file itself"
	case !s.asItIs:
		return "the host converts or packs all elements, so the device cannot read the file itself"
	}
	return ""
}

// force makes the device read a file, if that is asked for. done is false if what else is asked for excludes that; reason
// says what.
func (l *loader) force(ctx context.Context, s *shard) (done bool, reason string, err error) {
	if reason := l.needsHost(s); reason != "" {
		return false, reason, nil
	}
	if err := l.openByDevice(ctx, s); err != nil {
		return false, "", err
	}
	return true, "as asked for", nil
}

// offer makes the device read a file that is not in the page cache, if the system is set up for that. Otherwise it
// reports why not, once for each reason.
func (l *loader) offer(ctx context.Context, s *shard) bool {
	reader, ok := core.As[core.FileReader](l.device)
	if !ok || l.noFiles || l.needsHost(s) != "" {
		return false
	}
	err := reader.CanReadFiles()
	if l.noFiles = err != nil; err == nil {
		if s.openDirect() != nil {
			return false // the caller finds that out, too, and reports it
		}
		err = l.openByDevice(ctx, s)
	}
	if err != nil {
		l.report.Refused = append(l.report.Refused, Refusal{readingByDevice, err.Error()})
		return false
	}
	return true
}

// readingByDevice is what reports call it.
const readingByDevice = "reading by the device itself"

// byDevice has the device read a piece. done is false if that is not possible and the piece has to be read another way:
// its bytes do not become those of the group as they are, or the device turned out not to read the file and nobody asked
// for it.
func (w *worker) byDevice(ctx context.Context, p *piece) (done bool, err error) {
	s := p.s
	if s.byDevice == nil || p.jobs != nil || s.unable.Load() != nil {
		return false, nil
	}
	dst, err := bytesOf(p.g.mem, p.g.at+p.to, p.n)
	if err != nil {
		return true, err
	}
	defer func() { _ = dst.Close() }()
	err = s.byDevice.ReadAt(ctx, dst, p.off)
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF):
		err = s.short(p.off+p.n, err)
	case errors.Is(err, core.ErrNotSupported) && w.options.Read == ReadAuto:
		reason := err
		s.unable.CompareAndSwap(nil, &reason)
		return false, nil
	case err == nil:
		w.mu.Lock()
		w.report.ByDevice += p.n
		w.mu.Unlock()
	}
	return true, err
}

// reportUnable reports that the device turned out not to read a file.
func (l *loader) reportUnable(s *shard) {
	if err := s.unable.Load(); err != nil {
		l.report.Refused = append(l.report.Refused, Refusal{readingByDevice, (*err).Error()})
	}
}
