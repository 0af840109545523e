//go:build cgo && !linux

package main

import "github.com/dlx-go/dlx/share"

// adopt returns the error of a system on which there are no connections.
func adopt(_ int, options share.Options) (*share.Conn, error) { return share.New(nil, options) }
