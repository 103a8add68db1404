// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package dynamicwatcher

import "testing"

func TestPhases(t *testing.T) {
	phases := []phase{apart, gathering, trying, sharing, interrupted, leaving}
	steps := []step{enough, waited, established, ended, givenUp, unfit, abandoned}
	type move struct {
		from phase
		step step
	}
	changes := map[move]phase{
		{apart, enough}:            gathering,
		{gathering, waited}:        trying,
		{gathering, ended}:         trying,
		{gathering, givenUp}:       trying,
		{gathering, established}:   sharing,
		{trying, established}:      sharing,
		{sharing, ended}:           interrupted,
		{interrupted, established}: sharing,
		{sharing, unfit}:           leaving,
		{sharing, givenUp}:         trying,
		{interrupted, givenUp}:     trying,
		{leaving, givenUp}:         trying,
	}
	for _, from := range phases {
		for _, s := range steps {
			want, ok := changes[move{from, s}]
			switch {
			case s == abandoned:
				want = apart
			case !ok:
				want = from
			}
			if got := from.after(s); got != want {
				t.Errorf("step %d of phase %d leads to phase %d, want %d", s, from, got, want)
			}
		}
	}
}
