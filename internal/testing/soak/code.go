package soak

import (
	"fmt"
	"strings"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/exchange"
)

// This file writes values as Go.

func specCode(s core.Spec) string {
	text := fmt.Sprintf("core.Spec{DType: core.DType{Code: %d, Bits: %d, Lanes: %d}, Shape: []int64{%s}", s.DType.Code, s.DType.Bits, s.DType.Lanes, list(s.Shape))
	if s.Strides != nil {
		text += fmt.Sprintf(", Strides: []int64{%s}", list(s.Strides))
	}
	if s.Offset != 0 {
		text += fmt.Sprintf(", Offset: %d", s.Offset)
	}
	if s.Flags != 0 {
		text += fmt.Sprintf(", Flags: %d", s.Flags)
	}
	return text + "}"
}

func list(n []int64) string {
	words := make([]string, len(n))
	for i, x := range n {
		words[i] = fmt.Sprint(x)
	}
	return strings.Join(words, ", ")
}

func allocCode(o core.AllocOptions, stream string) string {
	var fields []string
	if o.Type != 0 {
		fields = append(fields, fmt.Sprintf("Type: %d", o.Type))
	}
	if o.Export != 0 {
		fields = append(fields, fmt.Sprintf("Export: %d", o.Export))
	}
	if o.HostVisible {
		fields = append(fields, "HostVisible: true")
	}
	if stream != "nil" && stream != "" {
		fields = append(fields, "Stream: "+stream)
	}
	return "core.AllocOptions{" + strings.Join(fields, ", ") + "}"
}

func optionsCode(o exchange.Options, stream, from string) string {
	var fields []string
	if o.Copy != 0 {
		fields = append(fields, "Copy: exchange."+[...]string{"IfNeeded", "Never", "Always"}[o.Copy])
	}
	if o.Only != 0 {
		fields = append(fields, "Only: exchange."+[...]string{"", "Alias", "Map", "Peer", "Direct", "Staged"}[o.Only])
	}
	if stream != "nil" {
		fields = append(fields, "Stream: "+stream)
	}
	if from != "nil" {
		fields = append(fields, "SourceStream: "+from)
	}
	if a := allocCode(o.Alloc, ""); a != "core.AllocOptions{}" {
		fields = append(fields, "Alloc: "+a)
	}
	return "exchange.Options{" + strings.Join(fields, ", ") + "}"
}
