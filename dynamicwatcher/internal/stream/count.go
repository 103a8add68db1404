// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package stream

import (
	"context"
	"net/url"
)

// Count returns the number of objects of a Target without Name and Selector. It requests a page of
// one object. It returns -1 if the server does not return the number without sending all objects.
// Its errors are those of Open.
func (h *HTTP) Count(ctx context.Context, t Target) (int64, error) {
	page, err := h.page(ctx, t, url.Values{"limit": {"1"}})
	switch {
	case err != nil:
		return 0, err
	case page.RemainingItemCount != nil:
		return int64(len(page.events)) + *page.RemainingItemCount, nil
	case page.Continue == "":
		return int64(len(page.events)), nil
	}
	return -1, nil
}
