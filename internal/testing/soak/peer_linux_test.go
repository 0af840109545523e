package soak

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/internal/testing/soak/parts"
)

// peerVariable makes the test binary the process that sends tensors back.
const peerVariable = "DLX_SOAK_PEER"

// shareable are the devices whose memory another process can open: descriptors of simulated devices mean nothing
// there.
func shareable(devices []*Device) (list []core.Device) {
	for _, d := range devices {
		if t := d.ID().Type; t != core.DeviceExt && t != core.DeviceWebGPU {
			list = append(list, d.Device)
		}
	}
	return list
}

// startPeer starts a process that sends tensors back. The caller calls end, which fails if the process does.
func startPeer(devices []*Device) (p *parts.Peer, end func() error, err error) {
	mine, fd, err := parts.Sockets()
	if err != nil {
		return nil, nil, err
	}
	theirs := os.NewFile(uintptr(fd), "socket")
	defer theirs.Close()
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), peerVariable+"=1")
	cmd.ExtraFiles = []*os.File{theirs}
	cmd.Stderr = os.Stderr
	// It ends when the connection does, so also with this process. The system would end it too early with Pdeathsig: when
	// the thread ends that has started it, as threads of renderers do.
	if err := cmd.Start(); err != nil {
		_ = mine.Close()
		return nil, nil, err
	}
	if p, err = parts.Connect(mine, shareable(devices)); err != nil {
		_ = mine.Close()
		_ = cmd.Process.Kill()
		return nil, nil, errors.Join(err, cmd.Wait())
	}
	return p, func() error {
		_ = p.Close()
		return cmd.Wait()
	}, nil
}

// servePeer is the process that sends tensors back. It returns the exit status.
func servePeer() int {
	fail := func(err error) int {
		fmt.Fprintln(os.Stderr, "the process that sends tensors back:", err)
		return 1
	}
	devices, err := openWorld()
	if err != nil {
		return fail(err)
	}
	socket, err := parts.Socket(3)
	if err != nil {
		return fail(err)
	}
	if err := parts.Answer(context.Background(), socket, shareable(devices)); err != nil {
		return fail(err)
	}
	for _, d := range devices {
		if err := d.Close(); err != nil {
			return fail(err)
		}
	}
	if left := leftOver(); left != "" {
		return fail(errors.New("left open:" + left))
	}
	return 0
}
