package image

import (
	"image"
	"testing"

	"github.com/dlx-go/dlx/core/coretest"
)

func TestNilArguments(t *testing.T) {
	coretest.CheckNils(t, map[string]any{
		"From": From, "Planes": Planes, "Copy": Copy, "Copy16": Copy16, "Batch": Batch,
		"ToRGBA": ToRGBA, "ToNRGBA": ToNRGBA, "ToGray": ToGray, "ToAlpha": ToAlpha, "View": View,
	},
		(*image.RGBA)(nil), (*image.NRGBA)(nil), (*image.CMYK)(nil), (*image.Gray)(nil), (*image.Alpha)(nil), (*image.Paletted)(nil),
		(*image.RGBA64)(nil), (*image.NRGBA64)(nil), (*image.Gray16)(nil), (*image.Alpha16)(nil), (*image.YCbCr)(nil), (*image.NYCbCrA)(nil),
		(*image.Uniform)(nil), (*Image)(nil), new(image.RGBA), new(image.NRGBA), new(image.CMYK), new(image.Gray), new(image.Alpha),
		new(image.Paletted), new(image.RGBA64), new(image.NRGBA64), new(image.Gray16), new(image.Alpha16), new(image.YCbCr),
		new(image.NYCbCrA), new(image.Uniform), new(Image))
}
