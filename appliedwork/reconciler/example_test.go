// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package reconciler_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/spokewire/sdk-go/appliedwork"
	"github.com/spokewire/sdk-go/appliedwork/reconciler"
	"github.com/spokewire/sdk-go/appliedwork/v1alpha1"
)

// What works want is a function; with a manager, SetupWithManager does the rest.
func ExampleNew() {
	desired := reconciler.DesiredFunc(func(context.Context, *v1alpha1.AppliedWork) (reconciler.Want, error) {
		return reconciler.Want{}, errors.New("the hub cannot be reached") // nothing is deleted for that
	})
	_, err := reconciler.New(reconciler.Options{Desired: desired})
	fmt.Println(errors.Is(err, appliedwork.ErrInvalidInput), err)
	// Output: true invalid input: Options.Client is required
}
