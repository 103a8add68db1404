// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package zz_test

import (
	"fmt"

	"github.com/spokewire/sdk-go/rsync/zz"
)

func ExampleNewGood() {
	fmt.Println(zz.NewGood() == nil)
	// Output: true
}

func ExampleNewNoOutput() {
	zz.NewNoOutput()
}

func ExampleNewSuffix_more() {
	zz.NewSuffix()
	// Output:
}
