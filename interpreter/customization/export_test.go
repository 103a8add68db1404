// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package customization

// Occupy takes all slots for evaluations until release is called.
func (i *Interpreter) Occupy() (release func()) {
	for range cap(i.slots) {
		i.slots <- struct{}{}
	}
	return func() {
		for range cap(i.slots) {
			<-i.slots
		}
	}
}
