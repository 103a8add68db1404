// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package page_test

import (
	"math"
	"os"
	"regexp"
	"strconv"
	"testing"
)

// TestContrast checks that the text is readable in both color schemes. WCAG 2.2 requires a contrast
// of 4.5 to 1.
func TestContrast(t *testing.T) {
	style, err := os.ReadFile("page.css")
	if err != nil {
		t.Fatal(err)
	}
	schemes := regexp.MustCompile(`(?s):root \{.*?\n\s*\}`).FindAllString(string(style), -1)
	if len(schemes) != 2 {
		t.Fatalf("%d colour schemes", len(schemes))
	}
	for i, name := range []string{"light", "dark"} {
		t.Run(name, func(t *testing.T) {
			light := map[string]float64{}
			for _, m := range regexp.MustCompile(`--(\w+): #([0-9a-f]{6});`).FindAllStringSubmatch(schemes[i], -1) {
				light[m[1]] = luminance(t, m[2])
			}
			for _, text := range []string{"text", "quiet", "link", "good", "busy", "bad", "unknown"} {
				for _, ground := range []string{"ground", "panel"} {
					high, low := max(light[text], light[ground]), min(light[text], light[ground])
					if ratio := (high + 0.05) / (low + 0.05); ratio < 4.5 {
						t.Errorf("%s on %s has a contrast of %.1f", text, ground, ratio)
					}
				}
			}
		})
	}
}

// luminance returns the relative luminance of an sRGB color.
func luminance(t *testing.T, colour string) float64 {
	t.Helper()
	sum := 0.0
	for i, weight := range []float64{0.2126, 0.7152, 0.0722} {
		n, err := strconv.ParseUint(colour[2*i:2*i+2], 16, 8)
		if err != nil {
			t.Fatal(err)
		}
		c := float64(n) / 255
		if c <= 0.04045 {
			c /= 12.92
		} else {
			c = math.Pow((c+0.055)/1.055, 2.4)
		}
		sum += weight * c
	}
	return sum
}
