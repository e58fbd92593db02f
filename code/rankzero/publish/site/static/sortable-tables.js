// Sortable tables: buttons in the heads of columns, which sort the rows, then reverse them, then restore their order.
// Without JavaScript, the rows keep the page's order.
(() => {
  "use strict";
  const compare = new Intl.Collator("en", { numeric: true }).compare;
  const next = { none: "ascending", ascending: "descending", descending: "none" };

  for (const table of document.querySelectorAll("table.sortable")) {
    const body = table.tBodies[0];
    const rows = [...body.rows];
    const heads = [...table.tHead.rows[0].cells];
    const textOf = (row, column) => row.cells[column].textContent.trim();

    const sort = (column) => {
      const order = next[heads[column].ariaSort ?? "none"];
      for (const head of heads) head.ariaSort = null;
      if (order !== "none") heads[column].ariaSort = order;
      const sign = { ascending: 1, descending: -1, none: 0 }[order];
      body.append(...[...rows].sort((a, b) => sign * compare(textOf(a, column), textOf(b, column))));
    };

    heads.forEach((head, column) => {
      const button = document.createElement("button");
      button.type = "button";
      const label = head.querySelector("p") ?? head;
      button.append(...label.childNodes);
      label.append(button);
      button.addEventListener("click", () => sort(column));
    });
  }
})();
