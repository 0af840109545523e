//go:build !linux

package soak

import "github.com/dlx-go/dlx/internal/testing/soak/parts"

// peerVariable is for Linux.
const peerVariable = "DLX_SOAK_PEER"

func startPeer([]*Device) (*parts.Peer, func() error, error) {
	return nil, func() error { return nil }, nil
}

func servePeer() int { return 1 }
