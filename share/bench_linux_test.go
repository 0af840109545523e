package share

import (
	"net"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/dlx-go/dlx/core"
)

// BenchmarkMessage is the round trip of 64 bytes over a socketpair, without this package: what a
// tensor costs at least.
func BenchmarkMessage(b *testing.B) {
	mine, theirs := pair(b)
	go func() {
		buf := make([]byte, 64)
		for {
			n, err := theirs.Read(buf)
			if err != nil {
				return
			}
			if _, err := theirs.Write(buf[:n]); err != nil {
				return
			}
		}
	}()
	buf := make([]byte, 64)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := mine.Write(buf); err != nil {
			b.Fatal(err)
		}
		if _, err := mine.Read(buf); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkKnownTensor sends a tensor of a memory that the other side has open, which closes it at
// once, and waits until it is released.
func BenchmarkKnownTensor(b *testing.B) {
	d, e := host(b), host(b)
	sender, receiver := connected(b, of(d), of(e))
	x := shareable(b, d, 16, memfd)
	echo(b, receiver, e)
	b.ReportAllocs()
	for b.Loop() {
		send(b, sender, x)
		if err := sender.WaitReleased(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkNewMemory is the same for memory that is passed and opened each time.
func BenchmarkNewMemory(b *testing.B) {
	d, e := host(b), host(b)
	sender, receiver := connected(b, of(d), of(e))
	echo(b, receiver, e)
	b.ReportAllocs()
	for b.Loop() {
		x, err := core.Empty(b.Context(), d, core.TypeInt32, []int64{16}, memfd)
		if err != nil {
			b.Fatal(err)
		}
		send(b, sender, x)
		x.Close()
		if err := sender.WaitReleased(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}

// echo closes what arrives until the connection ends.
func echo(b *testing.B, c *Conn, d core.Device) {
	go func() {
		for {
			x, _, err := c.Receive(b.Context(), d)
			if err != nil {
				return
			}
			x.Close()
		}
	}()
}

// BenchmarkDescriptor is the round trip of a descriptor over a socketpair, without this package.
func BenchmarkDescriptor(b *testing.B) {
	mine, theirs := pair(b)
	go func() {
		buf, oob := make([]byte, 64), make([]byte, 64)
		for {
			n, m, _, _, err := theirs.ReadMsgUnix(buf, oob)
			if err != nil {
				return
			}
			closeRights(oob[:m])
			if _, err := theirs.Write(buf[:n]); err != nil {
				return
			}
		}
	}()
	buf, rights := make([]byte, 64), unix.UnixRights(0)
	b.ReportAllocs()
	for b.Loop() {
		if _, _, err := mine.WriteMsgUnix(buf, rights, (*net.UnixAddr)(nil)); err != nil {
			b.Fatal(err)
		}
		if _, err := mine.Read(buf); err != nil {
			b.Fatal(err)
		}
	}
}

// closeRights closes the descriptors that came with a message.
func closeRights(oob []byte) {
	list, _ := unix.ParseSocketControlMessage(oob)
	for i := range list {
		fds, _ := unix.ParseUnixRights(&list[i])
		closeFDs(fds)
	}
}
