// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package dynamicwatcher

import "testing"

func TestStepsOfDelivery(t *testing.T) {
	for from, want := range map[delivery]map[deliveryStep]delivery{
		deliveryNone:      {ownStarted: deliveryOwn, shareStarted: deliveryShared},
		deliveryOwn:       {ownEnded: deliveryNone, shareStarted: deliveryShared},
		deliveryShared:    {ownStarted: deliveryReturning, shareEnded: deliveryNone},
		deliveryReturning: {ownEnded: deliveryShared, shareStarted: deliveryShared, shareEnded: deliveryOwn},
	} {
		for s := ownStarted; s <= shareEnded; s++ {
			to, ok := want[s]
			if !ok {
				to = from
			}
			if got := from.after(s); got != to {
				t.Errorf("step %d of delivery %d leads to delivery %d, want %d", s, from, got, to)
			}
		}
	}
}

func TestStepsOfFirstList(t *testing.T) {
	for from, want := range map[listPhase]struct{ sent, refused, dropped listPhase }{
		listPending:   {listComplete, listRefused, listDropped},
		listInherited: {listComplete, listComplete, listComplete},
		listRefused:   {listComplete, listRefused, listRefused},
		listDropped:   {listComplete, listDropped, listDropped},
		listComplete:  {listComplete, listComplete, listComplete},
	} {
		for s, to := range map[listStep]listPhase{listSent: want.sent, refusalSent: want.refused,
			objectDropped: want.dropped} {
			if got := from.after(s); got != to {
				t.Errorf("step %d of phase %d leads to phase %d, want %d", s, from, got, to)
			}
		}
	}
}
